-- Stores tasks. Each is a move of its own: what one item is answered does not depend on the others, except that an
-- earlier item of the same call may already hold its id or key.
--
-- KEYS[1]     meta
-- KEYS[2]     never
-- ARGV[1]     durable  1: the reply will wait for replicas
-- ARGV[2...]  id nonce name side_effect payload digest idempotency_key priority delay_ms at_ms records_effects lease_ms
--             max_attempts max_expirations max_runtime_ms max_same_error retry credential
-- Returns     ok now width=3 (created|existing|task_conflict|key_conflict|exhausted id status)...
-- Uses        moves lives

local durable = ARGV[1]
local WIDTH = 18
local OPTIONAL = { 'records_effects', 'lease_ms', 'max_attempts', 'max_expirations', 'max_runtime_ms', 'max_same_error',
  'retry', 'credential' }

local reply = { 'ok', now_text, '3' }
local keys_of_this_call, payloads_of_this_call = {}, {}

local function answer(word, id, status)
  reply[#reply + 1] = word
  reply[#reply + 1] = id
  reply[#reply + 1] = status or ''
end

local function owner_of_key(idempotency_key)
  local name = 'idempotency:' .. idempotency_key
  local stored = keys_of_this_call[name] or redis.call('GET', prefix .. name)
  if stored then
    return string.match(stored, '^(%S+) (%S+)$')
  end
end

-- The answer for a task that is there already.
local function answer_existing(task, item)
  local fields = task.fields
  if item.nonce == '' and item.idempotency_key == (fields.idempotency_key or '') or fields.nonce == item.nonce then
    return answer('created', item.id, fields.status)
  end
  local payload = payloads_of_this_call[item.id] or redis.call('HGET', prefix .. 'payloads', item.id) or ''
  local same = fields.name == item.name and fields.side_effect == item.side_effect and payload == item.payload
    and (fields.idempotency_key or '') == item.idempotency_key
  answer(same and 'existing' or 'task_conflict', item.id, fields.status)
end

local function create(item)
  local task = new_task(item.id)
  local due = now
  if item.at_ms ~= '' then
    due = tonumber(item.at_ms)
  elseif item.delay_ms ~= '' then
    due = now + tonumber(item.delay_ms)
  end
  put(task, 'name', item.name)
  put(task, 'side_effect', item.side_effect)
  put(task, 'created_at', now_text)
  if item.priority ~= '0' then
    put(task, 'priority', item.priority)
  end
  if item.nonce ~= '' then
    put(task, 'nonce', item.nonce)
    begin_life(item.id)
  end
  if item.idempotency_key ~= '' then
    local name = 'idempotency:' .. item.idempotency_key
    put(task, 'idempotency_key', item.idempotency_key)
    keys_of_this_call[name] = item.id .. ' ' .. item.digest
    write('SET', prefix .. name, keys_of_this_call[name])
  end
  for _, field in ipairs(OPTIONAL) do
    if item[field] ~= '' then
      put(task, field, item[field])
    end
  end
  if item.payload ~= '' then
    put_value('payloads', item.id, item.payload)
  end
  payloads_of_this_call[item.id] = item.payload
  if due > now then
    arrive(task, 'scheduled', due)
  else
    -- While a task is ready its sequence lives in the score alone, which keeps the hash small.
    put(task, 'status', 'ready')
    enter('ready', rank(item.priority, draw_sequence()), item.id)
    ring('ready')
  end
  count('enqueued')
  answer('created', item.id, task.fields.status)
end

local function enqueue(item)
  if item.idempotency_key ~= '' then
    local holder, digest = owner_of_key(item.idempotency_key)
    local task = holder and holder ~= item.id and read_task(holder)
    if task then
      return answer(digest == item.digest and 'existing' or 'key_conflict', holder, task.fields.status)
    end
  end
  local task, problem = read_task(item.id)
  if task then
    return answer_existing(task, item)
  elseif problem == 'broken' then
    return answer('task_conflict', item.id, '')
  elseif sequence >= LIMIT.sequence then
    return answer('exhausted', item.id, '')
  end
  create(item)
end

for first = 2, #ARGV, WIDTH do
  enqueue({
    id = ARGV[first],
    nonce = ARGV[first + 1],
    name = ARGV[first + 2],
    side_effect = ARGV[first + 3],
    payload = ARGV[first + 4],
    digest = ARGV[first + 5],
    idempotency_key = ARGV[first + 6],
    priority = ARGV[first + 7],
    delay_ms = ARGV[first + 8],
    at_ms = ARGV[first + 9],
    records_effects = ARGV[first + 10],
    lease_ms = ARGV[first + 11],
    max_attempts = ARGV[first + 12],
    max_expirations = ARGV[first + 13],
    max_runtime_ms = ARGV[first + 14],
    max_same_error = ARGV[first + 15],
    retry = ARGV[first + 16],
    credential = ARGV[first + 17],
  })
end
commit(true)
return finish(reply, durable)
