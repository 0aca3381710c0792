-- Gives a dead task another life: it becomes ready behind what waits now, with a clean record.
--
-- KEYS[1]  meta
-- KEYS[2]  never
-- ARGV[1]  durable  1: the reply will wait for replicas
-- ARGV[2]  id
-- ARGV[3]  token    of the task as the operator saw it, or ''
-- ARGV[4]  nonce    of this decision
-- ARGV[5]  by       who decides
-- ARGV[6]  reason   why
-- Returns  ok status fence
-- Returns  unknown
-- Returns  conflict reason status token decided_by decided decided_at
-- Uses     decision moves policy

local durable = ARGV[1]
local id = ARGV[2]
local token = ARGV[3]
local nonce = ARGV[4]
local by = ARGV[5]
local reason = ARGV[6]

local function refusal(task)
  if task.fields.status ~= 'dead' then
    return conflict(task, 'status')
  elseif (task.fields.fencing_token or '') ~= token then
    return conflict(task, 'token')
  elseif is_in_doubt(task) then
    return conflict(task, 'open_effects')
  end
end

local function requeue(task)
  raise_fence()
  forgive(task)
  drop(task, 'sequence')
  move(task, 'ready')
  count('requeued')
end

local reply = decide(id, { verb = 'requeue', nonce = nonce, by = by, reason = reason }, refusal, requeue)
commit()
return finish(reply, durable)
