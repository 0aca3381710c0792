-- Uses     ending evidence
-- Exports  read_effect write_effect close_effect note_effect
--
-- Effects on the outside world. Each is a field of `effects:ID`, named by its key; its value is four lines that a person
-- can read: state, token, generation, nonce (behind a comma those of earlier tries of the attempt), digest of the request,
-- both times, and the generation that left it open before (0: none) · the name · the outcome · testimony that came after
-- the lease was lost. `open_effects` of the task counts those without outcome, over all attempts; the implicit effect
-- `handler` is counted too, but lives in the task's own hash.

local function effect_key(id)
  return prefix .. 'effects:' .. id
end

local effect_records = {}

local function parse_effect(text)
  local head, name, outcome, late = string.match(text, '^([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)$')
  local state, token, generation, nonce, spent, digest, opened_at, closed_at, left_open_by =
    string.match(head or '', '^(%S+) (%d+) (%d+) ([^ ,]+)(%S*) (%S+) (%d+) (%d+) (%d+)$')
  return {
    state = state, token = token, generation = generation, nonce = nonce, spent = spent, digest = digest, opened_at = opened_at,
    closed_at = closed_at, left_open_by = left_open_by, name = name or '', outcome = outcome or '', late = late or '',
  }
end

-- The record of an effect, or nil; later lines of the same call see what this call has planned.
local function read_effect(task, key)
  local records = effect_records[task.id]
  if not records then
    records = {}
    effect_records[task.id] = records
  end
  if records[key] == nil then
    local text = redis.call('HGET', effect_key(task.id), key)
    records[key] = text and parse_effect(text) or false
  end
  return records[key] or nil
end

local function write_effect(task, key, record)
  effect_records[task.id][key] = record
  local head = table.concat({ record.state, record.token, record.generation, record.nonce .. record.spent, record.digest,
    record.opened_at, record.closed_at, record.left_open_by }, ' ')
  write('HSET', effect_key(task.id), key, table.concat({ head, record.name, record.outcome, record.late }, '\n'))
end

-- Closes an open effect. One that did not happen forgets its request: the next attempt may ask for something else.
local function close_effect(task, key, record, verdict, outcome)
  record.state = verdict
  record.closed_at = int(now)
  record.outcome = outcome
  if verdict == 'not_done' then
    record.digest = '-'
  end
  write_effect(task, key, record)
  close_one(task)
end

-- Joined in one go, as the ends of leases are; `further` is more of the line in JSON.
local function note_effect(task, event, key, further)
  note(task.id, '{"event":"' .. event .. '","at":' .. int(now) .. ',"effect":' .. json_string(key) .. ',"generation":'
    .. (task.fields.claim_generation or '0') .. further .. '}')
end
