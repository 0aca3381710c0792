-- Uses     recovery workers
-- Exports  acquire
--
-- Claiming: the heart of `claim`, and of `complete` with the next claim in the same call.

local function forget_renewals(task)
  drop(task, 'renewals')
  drop(task, 'renewed_at')
  drop(task, 'first_renewal_at')
  drop(task, 'longest_gap_ms')
end

-- What most tasks do not have, as a claim answers it: lines of a name and a value.
local RARE = { 'lease_ms', 'runtime_deadline', 'failures', 'priority', 'idempotency_key', 'nonce', 'retry',
  'records_effects', 'unstarted' }

local function rare_fields(fields)
  local lines = {}
  for _, name in ipairs(RARE) do
    if fields[name] then
      lines[#lines + 1] = name .. ' ' .. fields[name]
    end
  end
  return table.concat(lines, '\n')
end

local function has_rare_fields(fields)
  return fields.records_effects or fields.idempotency_key or fields.nonce or fields.priority or fields.failures
    or fields.lease_ms or fields.retry or fields.runtime_deadline or fields.unstarted
end

-- One task as claim answers it, for a new lease and for its replay.
local GRANT_WIDTH = 10

local function add_grant(reply, task, payload)
  local fields = task.fields
  local size = #reply
  reply[size + 1] = task.id
  reply[size + 2] = fields.name or ''
  reply[size + 3] = fields.side_effect or ''
  reply[size + 4] = fields.claim_generation
  reply[size + 5] = fields.fencing_token
  reply[size + 6] = fields.lease_expires_at
  reply[size + 7] = fields.attempts or '0'
  reply[size + 8] = fields.created_at or '0'
  reply[size + 9] = has_rare_fields(fields) and rare_fields(fields) or ''
  reply[size + 10] = payload or ''
end

local function payloads_of(ids, first, last)
  if last < first then
    return {}
  end
  return redis.call('HMGET', prefix .. 'payloads', unpack(ids, first, last))
end

-- Adds what is still held of a claim that was answered before; answers how many leases that are.
local function replay_grants(reply, worker, first_token, ids)
  local held = {}
  local token = tonumber(first_token)
  for id in string.gmatch(ids, '%S+') do
    local task = read_task(id)
    if task and still_holds(task, worker.name, task.fields.claim_generation, int(token)) then
      held[#held + 1] = id
    end
    token = token + 1
  end
  for first = 1, #held, LIMIT.unpack do
    local last = math.min(first + LIMIT.unpack - 1, #held)
    for offset, payload in ipairs(payloads_of(held, first, last)) do
      add_grant(reply, read_task(held[first + offset - 1]), payload)
    end
  end
  return #held
end

-- The tasks at the head of a lane that will be leased, and whether more is waiting behind them: stray ids are put right
-- on the way. A limit of 0 looks at the head and takes nothing.
local function read_head_of(lane, limit)
  local ids = redis.call('ZRANGE', prefix .. lane, 0, limit, 'WITHSCORES')
  local found, found_ids, scores, more = {}, {}, {}, #ids > 2 * limit
  for position = 1, math.min(#ids, 2 * math.max(limit, 1)), 2 do
    local id = ids[position]
    local task = read_task(id)
    if not task or task.fields.status ~= lane then
      put_right(id, task, lane)
      more = true
    elseif limit > 0 then
      found[#found + 1] = task
      found_ids[#found_ids + 1] = id
      scores[#scores + 1] = ids[position + 1]
    end
  end
  return found, found_ids, scores, more
end

-- Payloads of as many tasks as fit into one answer; at least one.
local function read_payloads(ids)
  local payloads, bytes, first = {}, 0, 1
  while first <= #ids and bytes < LIMIT.claim_bytes do
    local last = math.min(first + 63, #ids)
    for offset, payload in ipairs(payloads_of(ids, first, last)) do
      bytes = bytes + #(payload or '')
      if bytes > LIMIT.claim_bytes and first + offset > 2 then
        break
      end
      payloads[#payloads + 1] = payload
    end
    first = last + 1
  end
  return payloads
end

-- While a task is ready its sequence lives in its score alone.
local function sequence_in(score)
  return int_once(tonumber(score) % (LIMIT.sequence + 1))
end

local function lease_task(task, score, owner, token, started)
  local fields = task.fields
  leave(fields.status, task.id)
  local expires = now + number_of(task, 'lease_ms')
  if fields.max_runtime_ms then
    local deadline = now + tonumber(fields.max_runtime_ms)
    put(task, 'runtime_deadline', int(deadline))
    expires = math.min(expires, deadline)
  end
  local expires_at, at = int(expires), now_text
  local generation, attempts = int(counted_up(task, 'claim_generation')), int(counted_up(task, 'attempts'))
  local token_text, sequence_text = int_once(token), fields.sequence or sequence_in(score)
  -- Written out, because most of what a claim costs is here.
  fields.status, fields.lease_owner, fields.lease_expires_at = 'leased', owner, expires_at
  fields.claim_generation, fields.fencing_token, fields.attempts = generation, token_text, attempts
  fields.claimed_at, fields.sequence = at, sequence_text
  note_set(task, {
    'status', 'leased', 'lease_owner', owner, 'lease_expires_at', expires_at, 'claim_generation', generation,
    'fencing_token', token_text, 'attempts', attempts, 'claimed_at', at, 'sequence', sequence_text,
  })
  if fields.renewals then
    forget_renewals(task)
  end
  if started == '1' then
    start_handler(task)
  elseif on_last_expiration(task) then
    put(task, 'unstarted', '1')
  end
  enter('leased', expires, task.id)
end

-- The head of the answer: a word, whether more is waiting, when the next is due, the time, the number of grants and
-- their width. The grants follow. Answers where the head begins in the reply, less one.
local function begin_answer(reply, word)
  local base = #reply
  add_values(reply, { word, '1', '', now_text, '0', int(GRANT_WIDTH) })
  return base
end

local function sweep(limit)
  local share = math.max(8, limit)
  local promoted = promote_due(share)
  local _, expired = recover_expired(share)
  if promoted + expired > 0 then
    commit()
  end
  return promoted == share or expired == share
end

-- Also an empty answer is kept: a copy of the call that arrives late must not claim what its sender knows nothing of.
local function record_claim(worker, request_number, first_token, ids, amount)
  local held = table.concat(ids, ' ', 1, amount)
  write('HSET', worker.key, worker.slot, request_number .. ' ' .. int(first_token) .. ' ' .. held)
end

-- Plans new leases for the head of a lane and adds their grants; answers whether more is waiting and how many there
-- are.
local function lease_head(reply, worker, lane, limit, request_number, started)
  local chosen, ids, scores, more = read_head_of(lane, limit)
  local payloads = read_payloads(ids)
  local amount = #payloads
  local token = amount > 0 and raise_fence(amount) or 0
  if limit > 0 then
    record_claim(worker, request_number, token, ids, amount)
  end
  if amount == 0 then
    return more, 0
  end
  for position, payload in ipairs(payloads) do
    local task = chosen[position]
    lease_task(task, scores[position], worker.name, token + position - 1, started)
    add_grant(reply, task, payload)
  end
  count('claimed', amount)
  return more or amount < #chosen, amount
end

local function acquire_paused(reply, worker, limit, request_number)
  if limit > 0 then
    record_claim(worker, request_number, 0, {}, 0)
  end
  commit()
  local base = begin_answer(reply, 'paused')
  reply[base + 2] = '0'
end

-- Claims up to `limit` tasks of a lane and adds the answer to the reply; 0 probes the path and takes nothing.
local function acquire(reply, owner, lane, limit, request_number, started)
  local behind = sweep(limit)
  local worker = read_worker(owner, request_number)
  if not worker then
    return add_values(reply, { 'unknown_worker' })
  end
  local number, first_token, ids = string.match(worker.record, '^(%d+) (%d+) (.*)$')
  if number and tonumber(number) > tonumber(request_number) then
    return add_values(reply, { 'stale_request', number })
  elseif number == request_number then
    local base = begin_answer(reply, 'ok')
    reply[base + 5] = int(replay_grants(reply, worker, first_token, ids))
    return
  end
  mark_seen(worker)
  if pause ~= '' then
    return acquire_paused(reply, worker, limit, request_number)
  elseif not fence_allows(limit) then
    return add_values(reply, { 'exhausted', 'fence' })
  end
  local base = begin_answer(reply, 'ok')
  local more, amount = lease_head(reply, worker, lane, limit, request_number, started)
  reply[base + 5] = int(amount)
  if more or behind then
    ring(lane)
    commit()
  else
    commit()
    reply[base + 2] = '0'
    reply[base + 3] = next_due()
  end
end
