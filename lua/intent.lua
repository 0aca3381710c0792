-- Records that an effect is about to happen, before it does: no record, no action. Refused at maxmemory.
--
-- KEYS[1]     meta
-- KEYS[2]     never
-- ARGV[1]     durable  1: the reply will wait for replicas
-- ARGV[2...]  id owner generation token key nonce name digest
-- Returns     ok now answer...: `open`, `open again`, `done CLOSED_AT GENERATION OUTCOME`,
--             `reused|ambiguous|conflict OPENED_AT GENERATION`, `paused`, `read_only`, `too_many` or
--             `lost REASON STATUS GENERATION`
-- Uses        guard effects

local durable = ARGV[1]
local WIDTH = 8

local function granted_before(record, call)
  return record and record.token == call.token and record.nonce == call.nonce and record.state == 'open'
end

-- The nonces of this attempt that the next one replaces; a copy that comes later than so many more is not known.
local function spent_before(record, call)
  if not record or record.token ~= call.token then
    return ''
  end
  return record.nonce == NO_TRY and record.spent or spent_with(record)
end

local function earlier(word, record)
  return word .. ' ' .. record.opened_at .. ' ' .. record.generation
end

-- What to answer about an effect that has a record already; nil: it may go ahead.
local function answer_recorded(task, record, call)
  local under_way = record.state ~= 'not_done' and record.nonce ~= NO_TRY
  if record.token == call.token and (under_way or record.nonce == call.nonce or is_spent(record, call.nonce)) then
    return earlier('reused', record)
  elseif record.state == 'not_done' then
    return nil
  elseif record.digest ~= '-' and record.digest ~= call.digest then
    return earlier('conflict', record)
  elseif record.state == 'done' then
    return 'done ' .. record.closed_at .. ' ' .. record.generation .. ' ' .. record.outcome
  elseif task.fields.side_effect == 'non_idempotent' then
    return earlier('ambiguous', record)
  end
end

-- What was granted stays granted when the call is sent again, also in a pause that came in between.
local function intend(task, call)
  if call.key == 'handler' and not awaits_start(task) then
    return 'open'
  end
  local record = call.key ~= 'handler' and read_effect(task, call.key)
  if granted_before(record, call) then
    return record.left_open_by == '0' and 'open' or 'open again'
  elseif pause == 'effects' then
    return 'paused'
  elseif call.key == 'handler' then
    start_handler(task)
    return 'open'
  elseif task.fields.side_effect == 'read_only' then
    return 'read_only'
  end
  if record and record.state == 'unreadable' then
    adopt_unreadable(task)
    record = read_effect(task, call.key)
  end
  local answer = record and answer_recorded(task, record, call)
  if answer then
    return answer
  elseif not record and number_of(task, 'effects') >= LIMIT.effects then
    return 'too_many'
  end
  return open_effect(task, call, record, spent_before(record, call)) and 'open again' or 'open'
end

local GRANTED = { open = true, ['open again'] = true }

local reply = { 'ok', now_text }
local granted = false
local call = { owner = '', generation = '', token = '', key = '', nonce = '', name = '', digest = '' }
for first = 2, #ARGV, WIDTH do
  call.owner, call.generation, call.token = ARGV[first + 1], ARGV[first + 2], ARGV[first + 3]
  call.key, call.nonce, call.name, call.digest = ARGV[first + 4], ARGV[first + 5], ARGV[first + 6], ARGV[first + 7]
  read_to_begin(ARGV[first])
  local task, answer = guard(ARGV[first], call.owner, call.generation, call.token, 'intent')
  if task then
    answer = intend(task, call)
    granted = granted or GRANTED[answer]
  end
  reply[#reply + 1] = answer
end
commit(granted)
return finish(reply, durable)
