-- Uses     task
-- Exports  CAUSES is_in_doubt on_last_expiration destination
--
-- Where a task goes when its lease ends. The first row that applies decides; the rows are data, so that the tests and
-- the documentation read the same table.

local CAUSES = {
  -- cause = what it counts as, if anything
  expired = 'expirations',
  max_runtime = 'expirations',
  failed = 'failures',
  fatal = 'failures',
  released = 'releases',
  revoked = 'releases',
  credential = 'releases',
  proposed = 'releases',
  returned = '',
  unstarted = '',
  cancelled = '',
  completed = '',
}

-- When, then. A flat list, because it is made anew on every call.
local POLICY = {
  'completed', 'completed',
  'cancelled', 'cancelled',
  'in_doubt', 'reconciling',
  'fatal', 'dead',
  'same_error_too_often', 'dead',
  'too_many_failures', 'dead',
  'too_many_expirations', 'dead',
  'credential_missing', 'blocked',
  'proposed', 'awaiting_approval',
  'failed', 'scheduled',
  'delayed', 'scheduled',
  'otherwise', 'ready',
}

local function is_in_doubt(task)
  return task.fields.side_effect == 'non_idempotent' and number_of(task, 'open_effects') > 0
end

-- Conditions that are not the cause of the ending itself.
local function applies(condition, task, ending)
  if condition == 'in_doubt' then
    return is_in_doubt(task)
  elseif condition == 'same_error_too_often' then
    local limit = number_of(task, 'max_same_error')
    return ending.cause == 'failed' and limit > 0 and number_of(task, 'same_errors') >= limit
  elseif condition == 'too_many_failures' then
    return number_of(task, 'failures') >= number_of(task, 'max_attempts')
  elseif condition == 'too_many_expirations' then
    return number_of(task, 'expirations') >= number_of(task, 'max_expirations')
  elseif condition == 'credential_missing' then
    return ending.cause == 'credential' or ending.credential_blocked
  elseif condition == 'delayed' then
    return ending.delay_ms ~= nil
  end
  return condition == 'otherwise'
end

-- Whether one more expiration would be the last. Leases of such a task say when their handler begins, so that a task is
-- not dead because its neighbour kept killing their worker.
local function on_last_expiration(task)
  local fields = task.fields
  return (fields.expirations or fields.max_expirations)
    and number_of(task, 'expirations') + 1 >= number_of(task, 'max_expirations')
end

local function destination(task, ending)
  for row = 1, #POLICY, 2 do
    local condition = POLICY[row]
    if condition == ending.cause or applies(condition, task, ending) then
      return POLICY[row + 1], condition
    end
  end
end
