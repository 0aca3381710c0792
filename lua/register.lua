-- Gives a worker an identity of its own: NAME-N. Given an identity that exists, draws the next free request number
-- for it, so that separate processes can claim under it one after the other.
--
-- KEYS[1]  meta
-- KEYS[2]  never
-- ARGV[1]  durable  1: the reply will wait for replicas
-- ARGV[2]  name     what the identity starts with
-- ARGV[3]  owner    an identity to go on with, or ''
-- Returns  ok owner request_number
-- Returns  unknown_worker
-- Returns  exhausted what
-- Uses     workers

local durable = ARGV[1]
local name = ARGV[2]
local owner = ARGV[3]

local request_number = 1
if owner == '' then
  local last = tonumber(redis.call('HGET', KEYS[1], 'worker_sequence') or '0')
  if last >= LIMIT.integer then
    return finish({ 'exhausted', 'worker_sequence' }, durable)
  end
  owner = name .. '-' .. int(last + 1)
  expect('hash', 'worker:' .. owner)
  count('worker_sequence')
  expect('zset', 'workers')
  write('HSET', prefix .. 'worker:' .. owner, 'name', name, 'registered_at', now_text, 'seen_at', now_text, 'requests', '1')
  write('ZADD', prefix .. 'workers', now_text, owner)
else
  local worker = read_worker(owner, '0')
  if not worker then
    return finish({ 'unknown_worker' }, durable)
  end
  request_number = tonumber(redis.call('HGET', worker.key, 'requests') or '0') + 1
  write('HSET', worker.key, 'requests', int(request_number))
  mark_seen(worker)
end
commit()
return finish({ 'ok', owner, int(request_number) }, durable)
