-- The constants of the protocol. A field that a task does not store means the value here, so a value here never changes
-- without a new LAYOUT; redislease/limits.py states the same numbers and a test compares them.

-- Every script uses these many times over, and a local is found sooner than a global.
local redis, KEYS, ARGV, string, tonumber, unpack = redis, KEYS, ARGV, string, tonumber, unpack

local LAYOUT = '1'

local DEFAULT = {
  lease_ms = 60000,
  max_attempts = 5,
  max_expirations = 3,
}

local LIMIT = {
  sequence = 17592186044415,
  integer = 9007199254740991,
  claim_bytes = 4194304,
  claim_slots = 16,
  effects = 1000,
  key_bytes = 128,
  spent_nonces = 72,
  structural_lines = 1000,
  effect_lines = 900,
  late_lines = 20,
  retention_floor_ms = 60000,
  signal_ms = 60000,
  worker_silent_ms = 3600000,
  worker_seen_every_ms = 5000,
  unpack = 500,
}

-- The score of a terminal task with an effect of unknown outcome: no sweep meets it.
local NEVER_SWEPT = LIMIT.integer
