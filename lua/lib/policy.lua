-- Uses task
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

local POLICY = {
  -- when, then
  { 'completed', 'completed' },
  { 'cancelled', 'cancelled' },
  { 'in_doubt', 'reconciling' },
  { 'fatal', 'dead' },
  { 'same_error_too_often', 'dead' },
  { 'too_many_failures', 'dead' },
  { 'too_many_expirations', 'dead' },
  { 'credential_missing', 'blocked' },
  { 'proposed', 'awaiting_approval' },
  { 'failed', 'scheduled' },
  { 'delayed', 'scheduled' },
  { 'otherwise', 'ready' },
}

local APPLIES = {
  completed = function(_, ending) return ending.cause == 'completed' end,
  cancelled = function(_, ending) return ending.cause == 'cancelled' end,
  in_doubt = function(task)
    return task.fields.side_effect == 'non_idempotent' and number_of(task, 'open_effects') > 0
  end,
  fatal = function(_, ending) return ending.cause == 'fatal' end,
  same_error_too_often = function(task, ending)
    local limit = number_of(task, 'max_same_error')
    return ending.cause == 'failed' and limit > 0 and number_of(task, 'same_errors') >= limit
  end,
  too_many_failures = function(task) return number_of(task, 'failures') >= number_of(task, 'max_attempts') end,
  too_many_expirations = function(task)
    return number_of(task, 'expirations') >= number_of(task, 'max_expirations')
  end,
  credential_missing = function(_, ending) return ending.cause == 'credential' or ending.credential_blocked end,
  proposed = function(_, ending) return ending.cause == 'proposed' end,
  failed = function(_, ending) return ending.cause == 'failed' end,
  delayed = function(_, ending) return ending.delay_ms ~= nil end,
  otherwise = function() return true end,
}

-- Whether one more expiration would be the last. Leases of such a task say when their handler begins, so that a task is
-- not dead because its neighbour kept killing their worker.
local function on_last_expiration(task)
  local fields = task.fields
  return (fields.expirations or fields.max_expirations)
    and number_of(task, 'expirations') + 1 >= number_of(task, 'max_expirations')
end

local function destination(task, ending)
  for _, row in ipairs(POLICY) do
    if APPLIES[row[1]](task, ending) then
      return row[2], row[1]
    end
  end
end
