-- Uses     queue plan
-- Exports  read_worker mark_seen
--
-- Registered owners: an identity that no other process has, and the last claims of each, so that a claim whose reply
-- was lost can be answered again.

-- The record of an owner, or nil when it is not registered.
local function read_worker(owner, request_number)
  local name = 'worker:' .. owner
  local slot = 'claim:' .. int(tonumber(request_number) % LIMIT.claim_slots)
  local values = redis.call('HMGET', prefix .. name, 'registered_at', 'seen_at', slot)
  if not values[1] then
    return nil
  end
  expect('zset', 'workers')
  return { key = prefix .. name, name = owner, seen_at = tonumber(values[2] or '0'), slot = slot, record = values[3] or '' }
end

-- Kept coarse, so that a busy worker does not pay for it on every call.
local function mark_seen(worker)
  if now - worker.seen_at >= LIMIT.worker_seen_every_ms or now < worker.seen_at then
    write('HSET', worker.key, 'seen_at', now_text)
    write('ZADD', prefix .. 'workers', now_text, worker.name)
  end
end
