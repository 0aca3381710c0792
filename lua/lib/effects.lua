-- Uses     handler evidence
-- Exports  NO_TRY is_spent spent_with read_effect open_effect note_begin note_outcome close_effect return_effect
-- Exports  testify
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

-- Stored forms by task and key: later lines of a call see what it has planned.
local effect_texts = {}

local function parse_effect(text)
  local state, token, generation, nonce, spent, digest, opened_at, closed_at, left_open_by, name, outcome, late = string.match(
    text, '^(%S+) (%d+) (%d+) ([^ ,]+)(%S*) (%S+) (%d+) (%d+) (%d+)\n([^\n]*)\n([^\n]*)\n([^\n]*)$')
  return {
    state = state, token = token, generation = generation, nonce = nonce, spent = spent, digest = digest,
    opened_at = opened_at, closed_at = closed_at, left_open_by = left_open_by, name = name or '', outcome = outcome or '',
    late = late or '',
  }
end

-- The record of an effect, or nil.
local function read_effect(task, key)
  local place = task.id .. ' ' .. key
  local text = effect_texts[place]
  if text == nil then
    text = redis.call('HGET', prefix .. 'effects:' .. task.id, key)
    effect_texts[place] = text
  end
  return text and parse_effect(text) or nil
end

local function write_text(task, key, text)
  effect_texts[task.id .. ' ' .. key] = text
  write('HSET', prefix .. 'effects:' .. task.id, key, text)
end

local function write_effect(task, key, record)
  write_text(task, key, record.state .. ' ' .. record.token .. ' ' .. record.generation .. ' ' .. record.nonce
    .. record.spent .. ' ' .. record.digest .. ' ' .. record.opened_at .. ' ' .. record.closed_at .. ' '
    .. record.left_open_by .. '\n' .. record.name .. '\n' .. record.outcome .. '\n' .. record.late)
end

local function line_of(event, at, key, record)
  return '{"event":"' .. event .. '","at":' .. at .. ',"effect":' .. json_string(key) .. ',"generation":'
    .. record.generation .. ',"token":"' .. record.token .. '","name":' .. json_string(record.name) .. ',"digest":'
    .. json_string(record.digest) .. ',"again":' .. (record.left_open_by == '0' and 'false' or 'true')
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

-- Opens an effect for a call; `before` is the record that it replaces. Answers whether an earlier attempt had left it
-- open.
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
  write_text(task, call.key, 'open ' .. call.token .. ' ' .. call.generation .. ' ' .. call.nonce .. spent .. ' '
    .. call.digest .. ' ' .. now_text .. ' 0 ' .. (again and before.generation or '0') .. '\n' .. call.name .. '\n\n')
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

-- What a worker says of its effect after it has lost the lease: kept, and changing nothing else.
local function testify(task, key, record, verdict, outcome)
  if record.late == '' and record.state == 'open' then
    record.late = verdict .. ' ' .. now_text .. ' ' .. outcome
    write_effect(task, key, record)
  end
end
