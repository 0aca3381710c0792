-- Records what became of an effect. From a holder that has lost its lease it is testimony: kept for whoever reconciles
-- the task, and changing nothing else.
--
-- KEYS[1]     meta
-- KEYS[2]     never
-- ARGV[1]     durable  1: the reply will wait for replicas
-- ARGV[2...]  id owner generation token key nonce verdict outcome
-- Returns     ok now width=4 (ok status replay|'' '')... or (unknown_effect|closed state '' '')... or
--             (lost reason status generation)...
-- Uses        guard effects

local durable = ARGV[1]
local WIDTH = 8

local function testify(task, key, record, verdict, outcome)
  if record.late == '' and record.state == 'open' then
    record.late = verdict .. ' ' .. int(now) .. ' ' .. outcome
    write_effect(task, key, record)
  end
end

local function record_outcome(task, key, record, verdict, outcome)
  close_effect(task, key, record, verdict, outcome)
  note_effect(task, 'outcome', key, ',"verdict":' .. json_string(verdict))
  return { 'ok', task.fields.status, '', '' }
end

local reply = { 'ok', int(now), '4' }
for first = 2, #ARGV, WIDTH do
  local id, token, key, nonce = ARGV[first], ARGV[first + 3], ARGV[first + 4], ARGV[first + 5]
  local verdict, outcome = ARGV[first + 6], ARGV[first + 7]
  local known = read_task(id)
  local record = known and read_effect(known, key)
  local mine = record and record.token == token and record.nonce == nonce
  local answer
  if mine and record.state == verdict and record.outcome == outcome then
    answer = { 'ok', known.fields.status, 'replay', '' }
  else
    local task
    task, answer = guard(id, ARGV[first + 1], ARGV[first + 2], token, 'outcome')
    if task and not mine then
      answer = { 'unknown_effect', '', '', '' }
    elseif task and record.state ~= 'open' then
      answer = { 'closed', record.state, '', '' }
    elseif task then
      answer = record_outcome(task, key, record, verdict, outcome)
    elseif known then
      if mine then
        testify(known, key, record, verdict, outcome)
      end
      note_late(id, 'late_outcome', token, 'outcome:' .. key, 'effect', json_string(key), 'verdict',
        json_string(verdict))
    end
  end
  add_answer(reply, answer)
end
commit()
return finish(reply, durable)
