-- Takes a lease away from its holder; the policy decides where the task goes.
--
-- KEYS[1]  meta
-- KEYS[2]  never
-- ARGV[1]  durable  1: the reply will wait for replicas
-- ARGV[2]  id
-- ARGV[3]  token    the lease as the operator saw it
-- ARGV[4]  nonce    of this decision
-- ARGV[5]  by       who decides
-- ARGV[6]  reason   why
-- Returns  ok status fence
-- Returns  unknown
-- Returns  conflict reason status token decided_by decided decided_at
-- Uses     decision ending

local durable = ARGV[1]
local id = ARGV[2]
local token = ARGV[3]
local nonce = ARGV[4]
local by = ARGV[5]
local reason = ARGV[6]

local function refusal(task)
  if task.fields.status ~= 'leased' then
    return conflict(task, 'status')
  elseif task.fields.fencing_token ~= token then
    return conflict(task, 'token')
  end
end

local function revoke(task)
  take_lease(task, { verb = 'revoked', cause = 'revoked', last_error = 'revoked' })
end

local reply = decide(id, { verb = 'revoke', nonce = nonce, by = by, reason = reason }, refusal, revoke)
commit()
return finish(reply, durable)
