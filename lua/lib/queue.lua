-- Uses defaults clock numbers
--
-- The queue that this call is about: its key prefix, the time, and the state that `meta` holds. Answers at once when the
-- keys were written with another layout.

local prefix = string.sub(KEYS[1], 1, -5)
local now_us = read_clock()
local now = math.floor(now_us / 1000)
local now_text = int(now)

local meta = redis.call('HMGET', KEYS[1], 'layout', 'fence', 'sequence', 'pause', 'epoch')
if meta[1] and meta[1] ~= LAYOUT then
  return { 'layout', meta[1], LAYOUT }
end

local stored_fence = tonumber(meta[2] or '0')
local stored_sequence = tonumber(meta[3] or '0')
local fence = stored_fence
local sequence = stored_sequence
local pause = meta[4] or ''
local epoch = meta[5] or '0'

-- Sends a read that may meet a key of a foreign type; answers nil for that, and raises every other error.
local function read_or_nil(...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' or not reply.err then
    return reply
  elseif string.find(tostring(reply.err), 'WRONGTYPE', 1, true) then
    return nil
  end
  return redis.call(...)
end

-- The next fencing token. The floor at the server's clock keeps tokens increasing when the last writes were lost.
local function raise_fence(count)
  local first = math.max(fence + 1, now_us)
  fence = math.min(first + (count or 1) - 1, LIMIT.integer)
  return first
end

-- Whether so many tokens can be issued without passing what a double holds exactly.
local function fence_allows(count)
  return math.max(fence, now_us - 1) + count < LIMIT.integer
end

local function draw_sequence()
  sequence = math.min(sequence + 1, LIMIT.sequence)
  return int(sequence)
end

-- Priority first, then the order in which tasks became ready; exact in a double.
local function rank(priority, drawn)
  return (100 - tonumber(priority or '0')) * 17592186044416 + tonumber(drawn)
end
