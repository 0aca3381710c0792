-- Leases ready tasks to a worker. In passing it promotes due tasks and recovers expired leases, so that a queue works
-- without a reaper.
--
-- KEYS[1]  meta
-- KEYS[2]  never
-- ARGV[1]  durable         1: the reply will wait for replicas
-- ARGV[2]  owner           a registered identity
-- ARGV[3]  lane            ready or approved
-- ARGV[4]  limit           how many at most; 0 probes the path
-- ARGV[5]  request_number  1, 2, 3 ... of this owner; the same number claims nothing new
-- ARGV[6]  started         1: the holder acts at once. Else it says so with an intent of `handler` where that matters:
--                          for tasks with an implicit effect, and where the grant says `unstarted`
-- Returns  ok more next_due_ms now count width=10 (id name side_effect generation token expires_at attempts created_at
--          rare payload)...; rare holds a line `NAME VALUE` for each field that most tasks do not have: lease_ms
--          runtime_deadline failures priority idempotency_key nonce retry records_effects unstarted
-- Returns  paused 0 '' now 0 width=10
-- Returns  unknown_worker
-- Returns  stale_request number
-- Returns  exhausted what
-- Uses     acquire

local durable = ARGV[1]
local owner = ARGV[2]
local lane = ARGV[3]
local limit = ARGV[4]
local request_number = ARGV[5]
local started = ARGV[6]

local reply = {}
acquire(reply, owner, lane, tonumber(limit), request_number, started)
return finish(reply, durable)
