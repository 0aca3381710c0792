-- Uses     handler evidence
-- Exports  NO_TRY is_spent spent_with is_earlier read_effect read_own_effect open_in_all adopt_unreadable open_effect
-- Exports  note_begin note_outcome close_effect return_effect decide_effect testify
--
-- Effects on the outside world. Each is a field of `effects:ID`, named by its key; its value is four lines that a person
-- can read: state, token, generation, nonce (behind a comma those of earlier tries of the attempt), digest of the request,
-- both times, and the generation that left it open before (0: none; behind commas token and nonce of the lease that had
-- begun it before) · the name · the outcome · testimony that came after the lease was lost. `open_effects` of the task
-- counts those without outcome, over all attempts; the implicit effect `handler` is counted too, but lives in the task's
-- own hash.

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
    closed_at = '0', left_open_by = '0', earlier = '', name = key, outcome = '', late = '',
  }
end

local function parse_effect(key, text)
  local state, token, generation, nonce, spent, digest, opened_at, closed_at, left_open_by, earlier, name, outcome, late =
    string.match(text,
      '^(%S+) (%d+) (%d+) ([^ ,]+)(%S*) (%S+) (%d+) (%d+) (%d+)(%S*)\n([^\n]*)\n([^\n]*)\n([^\n]*)$')
  if not EFFECT_STATES[state] then
    return unreadable_record(key)
  end
  return {
    state = state, token = token, generation = generation, nonce = nonce, spent = spent, digest = digest,
    opened_at = opened_at, closed_at = closed_at, left_open_by = left_open_by, earlier = earlier, name = name,
    outcome = outcome, late = late,
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
        opened_at = opened_at, closed_at = '0', left_open_by = left_open_by, earlier = '', name = name, outcome = '',
        late = '',
      }
    end
  end
  return text and parse_effect(key, text) or nil
end

-- Whether it is known too late that it was done, and which lease said so.
local function says_done(record)
  return string.match(record.late, '^done %d+ (%d+) ')
end

-- Whether a call is of the lease that had begun the effect before the one that its record names.
local function is_earlier(record, token, nonce)
  return record.earlier == ',' .. token .. ',' .. nonce
end

local function write_text(task, key, text)
  keep_text(task, key, text)
  write_field(effects_key(task), key, text)
end

local function write_effect(task, key, record)
  write_text(task, key, record.state .. ' ' .. record.token .. ' ' .. record.generation .. ' ' .. record.nonce
    .. record.spent .. ' ' .. record.digest .. ' ' .. record.opened_at .. ' ' .. record.closed_at .. ' '
    .. record.left_open_by .. record.earlier .. '\n' .. record.name .. '\n' .. record.outcome .. '\n' .. record.late)
end

-- The keys of a task's effects: those that are stored, and those that this call has planned. What nobody can name is no
-- effect.
local function keys_of_effects(task)
  local keys, known = {}, {}
  local function add(key)
    if key and not known[key] and #key <= LIMIT.key_bytes and not string.find(key, '%c') then
      known[key] = true
      keys[#keys + 1] = key
    end
  end
  local flat = redis.call('HGETALL', effects_key(task))
  for position = 1, #flat, 2 do
    add(flat[position])
  end
  local planned = task.id .. ' '
  for place, text in pairs(earlier_texts) do
    add(text and string.sub(place, 1, #planned) == planned and string.sub(place, #planned + 1))
  end
  add(task.effect_text and task.effect)
  return keys
end

-- How many effects of a task are open when each that nobody can read counts as open, and which those are.
local function open_in_all(task)
  local open, unreadable = task.fields.handler_open and 1 or 0, {}
  for _, key in ipairs(keys_of_effects(task)) do
    local state = read_effect(task, key).state
    if state == 'unreadable' then
      unreadable[#unreadable + 1] = key
    elseif state == 'open' then
      open = open + 1
    end
  end
  return open + #unreadable, unreadable
end

-- Makes open questions of the records that nobody can read: an attempt of which nothing is known may have begun them.
local function adopt_unreadable(task)
  local open, unreadable = open_in_all(task)
  for _, key in ipairs(unreadable) do
    local record = read_effect(task, key)
    record.state = 'open'
    write_effect(task, key, record)
    note(task.id, evidence_line('unreadable_effect', 'effect', json_string(key)))
  end
  put(task, 'open_effects', int(open))
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
  if record.nonce ~= NO_TRY then
    note(task.id, line_of('intent', record.opened_at, key, record) .. '}')
  end
end

local function note_outcome(task, key, record, verdict)
  note(task.id, line_of('outcome', now_text, key, record) .. ',"opened_at":' .. record.opened_at .. ',"verdict":"'
    .. verdict .. '"}')
end

-- Which lease had begun an effect before a call of another. A try of which its own holder says that it did not happen is
-- none.
local function begun_before(call, before)
  if not before then
    return ''
  elseif before.token == call.token or before.nonce == NO_TRY or before.state == 'not_done' then
    return before.earlier
  end
  return ',' .. before.token .. ',' .. before.nonce
end

-- Opens an effect for a call; `before` is the record that it replaces. Answers whether an earlier attempt had left it
-- open. That somebody has done it stays known.
local function open_effect(task, call, before, spent)
  local again = before and before.state == 'open'
  if again then
    note_begin(task, call.key, before)
  else
    increase(task, 'open_effects')
    if not before then
      increase(task, 'effects')
    end
  end
  local late = before and says_done(before) and before.late or ''
  write_text(task, call.key, 'open ' .. call.token .. ' ' .. call.generation .. ' ' .. call.nonce .. spent .. ' '
    .. call.digest .. ' ' .. now_text .. ' 0 ' .. (again and before.generation or '0') .. begun_before(call, before) .. '\n'
    .. call.name .. '\n\n' .. late)
  return again
end

-- Closes an open effect. One that did not happen forgets its request: the next attempt may ask for something else.
local function close_effect(task, key, record, verdict, outcome)
  record.state, record.closed_at, record.outcome = verdict, now_text, outcome
  if verdict == 'not_done' then
    record.digest = '-'
  end
  write_effect(task, key, record)
  close_one(task)
end

-- A try that did not happen says nothing of the one that an earlier lease had left open: that one is in doubt again.
local function return_effect(task, key, record)
  record.spent = spent_with(record)
  record.nonce, record.generation, record.left_open_by = NO_TRY, record.left_open_by, '0'
  write_effect(task, key, record)
end

-- What a person decides: the try is over, and what its worker says from now on comes from before.
local function decide_effect(task, key, record, verdict, outcome)
  if record.nonce ~= NO_TRY then
    record.earlier = ',' .. record.token .. ',' .. record.nonce
    record.nonce = NO_TRY
  end
  close_effect(task, key, record, verdict, outcome)
end

-- What a worker says of its effect after it has lost the lease: kept with its token, and deciding nothing. That it was
-- done counts more than that it was not, also after somebody else has decided, and of two that say so the one whose try
-- the record is about; that it was not says nothing of an earlier lease's try.
local function testify(task, key, record, mine, token, verdict, outcome)
  local worth = mine and record.state == 'open' and record.late == '' and record.left_open_by == '0'
  if verdict == 'done' then
    local said_by = says_done(record)
    worth = not said_by or mine and said_by ~= token
  end
  if worth then
    record.late = verdict .. ' ' .. now_text .. ' ' .. token .. ' ' .. outcome
    write_effect(task, key, record)
  end
end
