-- The queue at a glance. Writes nothing.
--
-- KEYS[1]  meta
-- KEYS[2]  never
-- Returns  ok now states (state size)..., then fields (name value)... of meta and of what stands at the heads
-- Uses     queue

local STATES = { 'scheduled', 'ready', 'approved', 'leased', 'blocked', 'awaiting_approval', 'reconciling', 'dead',
  'completed', 'cancelled', 'unsettled', 'orphans', 'workers' }

local reply = { 'ok', now_text, int(#STATES) }
for _, state in ipairs(STATES) do
  reply[#reply + 1] = state
  reply[#reply + 1] = int(redis.call('ZCARD', prefix .. state))
end

local function add(name, value)
  reply[#reply + 1] = name
  reply[#reply + 1] = value
end

local function head_score(index)
  return redis.call('ZRANGE', prefix .. index, 0, 0, 'WITHSCORES')
end

local function add_head(name, index)
  local head = head_score(index)
  if head[1] then
    add(name, int(tonumber(head[2])))
  end
end

local ready = head_score('ready')
if ready[1] then
  add('head_created_at', redis.call('HGET', prefix .. 'task:' .. ready[1], 'created_at') or '0')
end
add_head('next_due_at', 'scheduled')
add_head('next_expiry_at', 'leased')
add_head('oldest_reconciling_at', 'reconciling')
add('expired', int(redis.call('ZCOUNT', prefix .. 'leased', '-inf', '(' .. now_text)))
add('overdue', int(redis.call('ZCOUNT', prefix .. 'scheduled', '-inf', now_text)))
local flat = redis.call('HGETALL', KEYS[1])
for position = 1, #flat, 2 do
  add('meta.' .. flat[position], flat[position + 1])
end
return reply
