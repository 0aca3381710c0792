-- Uses     handler evidence
-- Exports  NO_TRY is_spent spent_with read_effect read_own_effect unreadable_open open_effect note_begin note_outcome
-- Exports  close_effect return_effect testify
--
-- Effects on the outside world. Each is a field of `effects:ID`, named by its key; its value is four lines that a person
-- can read: state, token, generation, nonce (behind a comma those of earlier tries of the attempt), digest of the request,
-- both times, and the generation that left it open before (0: none) · the name · the outcome · testimony that came after
-- the lease was lost. `open_effects` of the task counts those without outcome, over all attempts; the implicit effect
-- `handler` is counted too, but lives in the task's own hash.

-- In place of a nonce: no try of this lease is under way, and one of an earlier lease is in doubt.
local NO_TRY = '-'

-- Whether a nonce is that of an earlier try of the lease, which certainly did not happen: a late copy of it must not
-- begin again.
local function is_spent(record, nonce)
  return string.find(record.spent .. ',', ',' .. nonce .. ',', 1, true)
end

-- The nonces of the lease's tries that are over; a copy that comes later than so many more is not known.
local function spent_with(record)
  return string.sub(',' .. record.nonce .. record.spent, 1, LIMIT.spent_nonces)
end

-- What a call has read or planned: kept with the task for the effect that it met last, and here, by task and key, for
-- those before.
local earlier_texts = {}

local function keep_text(task, key, text)
  if task.effect and task.effect ~= key then
    earlier_texts[task.id .. ' ' .. task.effect] = task.effect_text
  end
  task.effect, task.effect_text = key, text
end

local function effects_key(task)
  return prefix .. 'effects:' .. task.id
end

-- The stored form of an effect, or false. Later lines of a call see what it has planned.
local function effect_text(task, key)
  if task.effect == key then
    return task.effect_text
  end
  local text = task.effect and earlier_texts[task.id .. ' ' .. key]
  if text == nil then
    text = redis.call('HGET', effects_key(task), key)
  end
  keep_text(task, key, text)
  return text
end

local EFFECT_STATES = { open = true, done = true, not_done = true }

-- A record that nobody can read: an attempt of which nothing is known may have begun the effect.
local function unreadable_record(key)
  return {
    state = 'unreadable', token = '0', generation = '1', nonce = NO_TRY, spent = '', digest = '-', opened_at = '0',
    closed_at = '0', left_open_by = '0', name = key, outcome = '', late = '',
  }
end

local function parse_effect(key, text)
  local state, token, generation, nonce, spent, digest, opened_at, closed_at, left_open_by, name, outcome, late = string.match(
    text, '^(%S+) (%d+) (%d+) ([^ ,]+)(%S*) (%S+) (%d+) (%d+) (%d+)\n([^\n]*)\n([^\n]*)\n([^\n]*)$')
  if not EFFECT_STATES[state] then
    return unreadable_record(key)
  end
  return {
    state = state, token = token, generation = generation, nonce = nonce, spent = spent, digest = digest,
    opened_at = opened_at, closed_at = closed_at, left_open_by = left_open_by, name = name, outcome = outcome,
    late = late,
  }
end

-- The record of an effect, or nil.
local function read_effect(task, key)
  local text = effect_text(task, key)
  return text and parse_effect(key, text) or nil
end

-- The same for whoever has begun it. Mostly nothing has become of it yet, and then few words of its record are new.
local function read_own_effect(task, key, generation, token, nonce)
  local text = effect_text(task, key)
  local head = 'open ' .. token .. ' ' .. generation .. ' ' .. nonce
  if text and string.sub(text, 1, #head) == head then
    local digest, opened_at, left_open_by, name = string.match(text, '^ (%S+) (%d+) 0 (%d+)\n([^\n]*)\n\n$', #head + 1)
    if digest then
      return {
        state = 'open', token = token, generation = generation, nonce = nonce, spent = '', digest = digest,
        opened_at = opened_at, closed_at = '0', left_open_by = left_open_by, name = name, outcome = '', late = '',
      }
    end
  end
  return text and parse_effect(key, text) or nil
end

-- How many more effects of the task are open than its readable records tell of.
local function unreadable_open(task)
  local left = number_of(task, 'open_effects') - (task.fields.handler_open and 1 or 0)
  local flat = redis.call('HGETALL', effects_key(task))
  for position = 1, #flat, 2 do
    if read_effect(task, flat[position]).state == 'open' then
      left = left - 1
    end
  end
  return math.max(left, 0)
end

-- Whether an effect counts among the open ones of its task.
local function is_open(task, record)
  return record.state == 'open' or record.state == 'unreadable' and unreadable_open(task) > 0
end

local function write_text(task, key, text)
  keep_text(task, key, text)
  write_field(effects_key(task), key, text)
end

local function write_effect(task, key, record)
  write_text(task, key, record.state .. ' ' .. record.token .. ' ' .. record.generation .. ' ' .. record.nonce
    .. record.spent .. ' ' .. record.digest .. ' ' .. record.opened_at .. ' ' .. record.closed_at .. ' '
    .. record.left_open_by .. '\n' .. record.name .. '\n' .. record.outcome .. '\n' .. record.late)
end

-- An effect is called like its key unless the line says otherwise, and begun for the first time.
local function line_of(event, at, key, record)
  local line = '{"event":"' .. event .. '","at":' .. at .. ',"effect":' .. json_string(key) .. ',"generation":'
    .. record.generation .. ',"token":"' .. record.token .. '","digest":' .. json_string(record.digest)
  if record.name ~= key then
    line = line .. ',"name":' .. json_string(record.name)
  end
  return record.left_open_by == '0' and line or line .. ',"again":true'
end

-- The beginning of an effect becomes evidence when its outcome is known, in one line with it, or when somebody else
-- decides it or begins it anew; until then its record tells.
local function note_begin(task, key, record)
  if record.state == 'unreadable' then
    note(task.id, evidence_line('unreadable_effect', 'effect', json_string(key)))
  elseif record.nonce ~= NO_TRY then
    note(task.id, line_of('intent', record.opened_at, key, record) .. '}')
  end
end

local function note_outcome(task, key, record, verdict)
  note(task.id, line_of('outcome', now_text, key, record) .. ',"opened_at":' .. record.opened_at .. ',"verdict":"'
    .. verdict .. '"}')
end

-- Opens an effect for a call; `before` is the record that it replaces. Answers whether an earlier attempt may have left
-- it open.
local function open_effect(task, call, before, spent)
  local again = before and before.state ~= 'not_done'
  if again then
    note_begin(task, call.key, before)
  end
  if not before or not is_open(task, before) then
    increase(task, 'open_effects')
  end
  if not before then
    increase(task, 'effects')
  end
  write_text(task, call.key, 'open ' .. call.token .. ' ' .. call.generation .. ' ' .. call.nonce .. spent .. ' '
    .. call.digest .. ' ' .. now_text .. ' 0 ' .. (again and before.generation or '0') .. '\n' .. call.name .. '\n\n')
  return again
end

-- Closes an effect. One that did not happen forgets its request: the next attempt may ask for something else.
local function close_effect(task, key, record, verdict, outcome)
  if is_open(task, record) then
    close_one(task)
  end
  record.state, record.closed_at, record.outcome = verdict, now_text, outcome
  if verdict == 'not_done' then
    record.digest = '-'
  end
  write_effect(task, key, record)
end

-- A try that did not happen says nothing of the one that an earlier lease had left open: that one is in doubt again.
local function return_effect(task, key, record)
  record.spent = spent_with(record)
  record.nonce, record.generation, record.left_open_by = NO_TRY, record.left_open_by, '0'
  write_effect(task, key, record)
end

-- What a worker says of its effect after it has lost the lease: kept, and changing nothing else.
local function testify(task, key, record, verdict, outcome)
  if record.late == '' and record.state == 'open' then
    record.late = verdict .. ' ' .. now_text .. ' ' .. outcome
    write_effect(task, key, record)
  end
end
