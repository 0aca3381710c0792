-- Records what became of an effect. From a holder that has lost its lease it is testimony: kept for whoever reconciles
-- the task, and changing nothing else.
--
-- KEYS[1]     meta
-- KEYS[2]     never
-- ARGV[1]     durable  1: the reply will wait for replicas
-- ARGV[2...]  id owner generation token key nonce verdict outcome
-- Returns     ok now answer...: `ok STATUS`, `ok STATUS replay`, `unknown_effect`, `closed STATE` or
--             `lost REASON STATUS GENERATION`
-- Uses        guard effects

local durable = ARGV[1]
local WIDTH = 8

-- A worker that has lost its lease is answered why, and what it knows of its own effect is kept.
local function hear(known, refusal, key, record, mine, token, nonce, verdict, outcome)
  if mine or record and is_earlier(record, token, nonce) then
    testify(known, key, record, mine, token, verdict, outcome)
  end
  note_late(known.id, 'late_outcome', token, verdict .. ':' .. key, 'effect', json_string(key), 'verdict',
    json_string(verdict))
  return refusal
end

local function conclude(id, owner, generation, token, key, nonce, verdict, outcome)
  read_lease(id)
  local known = read_task(id)
  local record = known and read_own_effect(known, key, generation, token, nonce)
  local my_lease = record and record.token == token
  local mine = my_lease and record.nonce == nonce and nonce ~= NO_TRY
  if mine and record.state == verdict and record.outcome == outcome
    or my_lease and verdict == 'not_done' and is_spent(record, nonce) then
    return 'ok ' .. (known.fields.status or '') .. ' replay'
  end
  local task, refusal = guard(id, owner, generation, token, 'outcome')
  if not known then
    return refusal
  elseif not task then
    return hear(known, refusal, key, record, mine, token, nonce, verdict, outcome)
  elseif not mine then
    return 'unknown_effect'
  elseif record.state ~= 'open' then
    return 'closed ' .. record.state
  end
  note_outcome(task, key, record, verdict)
  if verdict == 'not_done' and record.left_open_by ~= '0' then
    return_effect(task, key, record)
  else
    close_effect(task, key, record, verdict, outcome)
  end
  return 'ok ' .. task.fields.status
end

local reply = { 'ok', now_text }
for first = 2, #ARGV, WIDTH do
  reply[#reply + 1] = conclude(ARGV[first], ARGV[first + 1], ARGV[first + 2], ARGV[first + 3], ARGV[first + 4],
    ARGV[first + 5], ARGV[first + 6], ARGV[first + 7])
end
commit()
return finish(reply, durable)
