-- Uses recovery workers
--
-- Claiming: the heart of `claim`, and of `complete` with the next claim in the same call.

local LEASE_FIELDS = { 'renewals', 'first_renewal_at', 'longest_gap_ms' }

-- One task as claim answers it, for a new lease and for its replay.
local GRANT_WIDTH = 17

local function grant(task, payload)
  local fields = task.fields
  return {
    task.id, fields.name or '', fields.side_effect or '', fields.claim_generation, fields.fencing_token,
    fields.lease_expires_at, int(tonumber(fields.lease_expires_at) - now), fields.lease_ms or int(DEFAULT.lease_ms),
    fields.runtime_deadline or '', fields.attempts or '0', fields.failures or '0', fields.priority or '0',
    fields.idempotency_key or '', fields.retry or '', fields.created_at or '',
    fields.records_effects or '', payload or '',
  }
end

local function payloads_of(ids, first, last)
  if last < first then
    return {}
  end
  return redis.call('HMGET', prefix .. 'payloads', unpack(ids, first, last))
end

-- What is still held of a claim that was answered before.
local function replay_grants(worker, first_token, ids)
  local held = {}
  local token = tonumber(first_token)
  for id in string.gmatch(ids, '%S+') do
    local task = read_task(id)
    local fields = task and task.fields or {}
    if task and still_holds(task, worker.name, fields.claim_generation, int(token)) then
      held[#held + 1] = id
    end
    token = token + 1
  end
  local grants = {}
  for first = 1, #held, LIMIT.unpack do
    local last = math.min(first + LIMIT.unpack - 1, #held)
    for offset, payload in ipairs(payloads_of(held, first, last)) do
      grants[#grants + 1] = grant(read_task(held[first + offset - 1]), payload)
    end
  end
  return grants
end

-- The tasks at the head of a lane that will be leased: stray ids are put right on the way.
local function read_head_of(lane, limit)
  local ids = redis.call('ZRANGE', prefix .. lane, 0, limit, 'WITHSCORES')
  local tasks_found, found_ids, more = {}, {}, false
  for position = 1, #ids, 2 do
    local id = ids[position]
    local task = read_task(id)
    if not task or task.fields.status ~= lane then
      put_right(id, task, lane)
      more = true
    elseif #tasks_found < limit then
      if not task.fields.sequence then
        put(task, 'sequence', int(tonumber(ids[position + 1]) % 17592186044416))
      end
      tasks_found[#tasks_found + 1] = task
      found_ids[#found_ids + 1] = id
    else
      more = true
    end
  end
  return tasks_found, found_ids, more
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

local function lease_task(task, owner, token)
  local fields = task.fields
  leave(fields.status, task.id)
  local expires = now + number_of(task, 'lease_ms')
  if fields.max_runtime_ms then
    local deadline = now + tonumber(fields.max_runtime_ms)
    put(task, 'runtime_deadline', int(deadline))
    expires = math.min(expires, deadline)
  end
  put_all(task, {
    'status', 'leased', 'lease_owner', owner, 'lease_expires_at', int(expires),
    'claim_generation', int(counted_up(task, 'claim_generation')), 'fencing_token', int(token),
    'attempts', int(counted_up(task, 'attempts')), 'claimed_at', int(now), 'renewed_at', int(now),
  })
  for _, field in ipairs(LEASE_FIELDS) do
    drop(task, field)
  end
  enter('leased', expires, task.id)
end

local function flatten(reply, grants)
  for _, fields in ipairs(grants) do
    for _, value in ipairs(fields) do
      reply[#reply + 1] = value
    end
  end
  return reply
end

local function claim_reply(word, more, grants)
  local due = ''
  if more == '0' and word ~= 'paused' then
    due = next_due()
  end
  return flatten({ word, more, due, int(now), int(#grants), int(GRANT_WIDTH) }, grants)
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

local function record_claim(worker, request_number, first_token, ids, amount)
  local held = table.concat(ids, ' ', 1, amount)
  write('HSET', worker.key, worker.slot, request_number .. ' ' .. int(first_token) .. ' ' .. held)
end

-- Plans new leases for the head of a lane; answers whether more is waiting, and the grants.
local function lease_head(worker, lane, limit, request_number, started)
  local chosen, ids, more = read_head_of(lane, limit)
  local payloads = read_payloads(ids)
  local amount = #payloads
  if amount == 0 then
    return more, {}
  elseif not fence_allows(amount) then
    return false, nil
  end
  local token = raise_fence(amount)
  record_claim(worker, request_number, token, ids, amount)
  local grants = {}
  for position, payload in ipairs(payloads) do
    local task = chosen[position]
    lease_task(task, worker.name, token + position - 1)
    if started == '1' then
      open_handler(task)
    end
    grants[position] = grant(task, payload)
  end
  count('claimed', amount)
  return more or amount < #chosen, grants
end

-- Claims up to `limit` tasks of a lane. Answers a word, whether more is waiting, when the next is due, the time, the
-- number of grants and their width, and the grants.
local function acquire(owner, lane, limit, request_number, started)
  local behind = sweep(limit)
  local worker = read_worker(owner, request_number)
  if not worker then
    return { 'unknown_worker' }
  end
  local number, first_token, ids = string.match(worker.record, '^(%d+) (%d+) (.*)$')
  if number == request_number then
    return claim_reply('ok', '1', replay_grants(worker, first_token, ids))
  elseif number and tonumber(number) > tonumber(request_number) then
    return { 'stale_request', number }
  end
  mark_seen(worker)
  if pause ~= '' then
    commit()
    return claim_reply('paused', '0', {})
  end
  local more, grants = lease_head(worker, lane, limit, request_number, started)
  if not grants then
    return { 'exhausted', 'fence' }
  end
  more = more or behind
  if more then
    ring(lane)
  end
  commit()
  return claim_reply('ok', more and '1' or '0', grants)
end
