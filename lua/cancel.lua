-- Cancels a live task for good. A holder of its lease is told and can do nothing more.
--
-- KEYS[1]  meta
-- KEYS[2]  never
-- ARGV[1]  durable  1: the reply will wait for replicas
-- ARGV[2]  id
-- ARGV[3]  nonce    of this decision
-- ARGV[4]  by       who decides
-- ARGV[5]  reason   why
-- Returns  ok status fence
-- Returns  unknown
-- Returns  conflict reason status token decided_by decided decided_at
-- Uses     decision ending

local durable = ARGV[1]
local id = ARGV[2]
local nonce = ARGV[3]
local by = ARGV[4]
local reason = ARGV[5]

local function refusal(task)
  if TERMINAL[task.fields.status] then
    return conflict(task, 'status')
  end
end

local function cancel(task, from)
  if from == 'leased' then
    take_lease(task, { verb = 'cancelled', cause = 'cancelled', last_error = 'cancelled' })
  else
    raise_fence()
    move(task, 'cancelled')
    count('cancelled')
  end
end

local reply = decide(id, { verb = 'cancel', nonce = nonce, by = by, reason = reason }, refusal, cancel)
commit()
return finish(reply, durable)
