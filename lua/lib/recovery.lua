-- Uses     ending guard
-- Exports  RECOVERED_WIDTH recover_expired promote_due next_due
--
-- What time alone does to tasks: leases end and due tasks become ready. Every id is checked against its hash in the
-- same step, so a task that was finished or renewed in between is left as it is.

local LAST_ERROR = {
  expired = 'lease expired', max_runtime = 'max_runtime reached', unstarted = 'lease expired before its handler began',
}

-- One recovered task as `reap` answers it.
local RECOVERED_WIDTH = 6

local function add_recovered(recovered, task, cause, to)
  local fields = task.fields
  local size = #recovered
  recovered[size + 1] = task.id
  recovered[size + 2] = cause
  recovered[size + 3] = to
  recovered[size + 4] = fields.claim_generation or '0'
  recovered[size + 5] = fields.lease_owner or ''
  recovered[size + 6] = fields.side_effect or ''
end

-- Plans at most `limit` recoveries. Answers the recovered tasks, and how many ids it took from `leased`.
local function recover_expired(limit)
  local ids = redis.call('ZRANGEBYSCORE', prefix .. 'leased', '-inf', '(' .. now_text, 'LIMIT', 0, limit)
  local recovered = {}
  for _, id in ipairs(ids) do
    local task = read_task(id)
    if not task or task.fields.status ~= 'leased' then
      put_right(id, task, 'leased')
    elseif tonumber(task.fields.lease_expires_at or '0') >= now then
      enter('leased', tonumber(task.fields.lease_expires_at), id)
    else
      local verb = expiry_cause(task)
      local cause = task.fields.unstarted and 'unstarted' or verb
      local to = take_lease(task, { verb = verb, cause = cause, last_error = LAST_ERROR[cause] })
      add_recovered(recovered, task, cause, to)
    end
  end
  return recovered, #ids
end

-- Plans at most `limit` promotions; answers how many ids it took from `scheduled`.
local function promote_due(limit)
  local ids = redis.call('ZRANGEBYSCORE', prefix .. 'scheduled', '-inf', now_text, 'LIMIT', 0, limit)
  for _, id in ipairs(ids) do
    local task = read_task(id)
    if not task or task.fields.status ~= 'scheduled' then
      put_right(id, task, 'scheduled')
    else
      move(task, 'ready')
      count('promoted')
    end
  end
  return #ids
end

-- When the next due task or expiry comes: '' when there is none.
local function next_due()
  local due = redis.call('ZRANGE', prefix .. 'scheduled', 0, 0, 'WITHSCORES')
  local expiry = redis.call('ZRANGE', prefix .. 'leased', 0, 0, 'WITHSCORES')
  local next = math.min(tonumber(due[2] or LIMIT.integer), tonumber(expiry[2] or LIMIT.integer) + 1)
  return next < LIMIT.integer and int(next) or ''
end
