-- Deletes what has outlived its retention: ended tasks with all their keys, silent workers, old decisions.
--
-- KEYS[1]  meta
-- KEYS[2]  never
-- ARGV[1]  durable       1: make one replicated write in any case
-- ARGV[2]  completed_ms  retention of completed tasks; '' keeps them
-- ARGV[3]  cancelled_ms  retention of cancelled tasks; '' keeps them
-- ARGV[4]  dead_ms       retention of dead tasks; '' keeps them
-- ARGV[5]  evidence_ms   how long evidence and decisions outlive the task; 0 deletes them with it
-- ARGV[6]  limit         how many tasks, workers and decisions at most
-- ARGV[7]  by            the operator who asked for it, or '' for a routine purge
-- ARGV[8]  reason        why
-- Returns  ok more now completed cancelled dead workers
-- Uses     moves lives

local durable = ARGV[1]
local completed_ms = ARGV[2]
local cancelled_ms = ARGV[3]
local dead_ms = ARGV[4]
local evidence_ms = tonumber(ARGV[5])
local limit = tonumber(ARGV[6])
local by = ARGV[7]
local reason = ARGV[8]

local function forget_evidence(id)
  local key = prefix .. 'evidence:' .. id
  if redis.call('EXISTS', key) == 0 then
    return
  elseif evidence_ms == 0 then
    write('DEL', key)
  else
    forget_old_lines(id, now - evidence_ms)
    write('PEXPIRE', key, int(evidence_ms))
  end
end

local function forget_idempotency_key(task)
  local held = task.fields.idempotency_key
  local key = held and prefix .. 'idempotency:' .. held
  local stored = held and redis.call('GET', key)
  if stored and string.match(stored, '^(%S+) ') == task.id then
    write('DEL', key)
  end
end

local function forget(task)
  local id = task.id
  local keys = { task.key, prefix .. 'effects:' .. id, prefix .. 'proposal:' .. id, prefix .. 'approval:' .. id }
  redis.call('EXISTS', unpack(keys))
  leave(task.fields.status, id)
  forget_evidence(id)
  forget_idempotency_key(task)
  drop_value('payloads', id)
  drop_value('results', id)
  drop_value('progress', id)
  write('DEL', unpack(keys))
end

local left = limit

local function purge_state(state, retention)
  if retention == '' or left <= 0 then
    return 0
  end
  local before = now - math.max(tonumber(retention), LIMIT.retention_floor_ms)
  local ids = redis.call('ZRANGEBYSCORE', prefix .. state, '-inf', int(before), 'LIMIT', 0, left)
  left = left - #ids
  local purged = 0
  for _, id in ipairs(ids) do
    local task = read_task(id)
    if not task or task.fields.status ~= state then
      put_right(id, task, state)
    elseif number_of(task, 'open_effects') > 0 then
      enter(state, NEVER_SWEPT, id)
      fill('unsettled', now, id)
    else
      forget(task)
      purged = purged + 1
    end
  end
  return purged
end

local function purge_workers()
  local silent = redis.call('ZRANGEBYSCORE', prefix .. 'workers', '-inf', int(now - LIMIT.worker_silent_ms), 'LIMIT', 0, limit)
  for _, owner in ipairs(silent) do
    local keys = { prefix .. 'worker:' .. owner, prefix .. 'signal:' .. owner }
    redis.call('EXISTS', unpack(keys))
    leave('workers', owner)
    write('DEL', unpack(keys))
  end
  return #silent
end

-- Decisions are kept as long as evidence is; the list is in the order of time.
local function purge_decisions()
  local before = now - math.max(evidence_ms, LIMIT.retention_floor_ms)
  local old = 0
  for _, line in ipairs(redis.call('LRANGE', prefix .. 'audit', 0, limit - 1)) do
    if tonumber(string.match(line, '"at":(%d+)') or now) >= before then
      break
    end
    old = old + 1
  end
  if old > 0 then
    write('LTRIM', prefix .. 'audit', int(old), '-1')
  end
end

local completed = purge_state('completed', completed_ms)
local cancelled = purge_state('cancelled', cancelled_ms)
local dead = purge_state('dead', dead_ms)
local workers = purge_workers()
purge_decisions()
if by ~= '' and completed + cancelled + dead > 0 then
  expect('list', 'audit')
  write('RPUSH', prefix .. 'audit', evidence_line('purge', 'by', json_string(by), 'reason', json_string(reason),
    'completed', int(completed), 'cancelled', int(cancelled), 'dead', int(dead)))
end
commit()
local more = left <= 0 or workers == limit
return finish({ 'ok', more and '1' or '0', now_text, int(completed), int(cancelled), int(dead), int(workers) }, durable)
