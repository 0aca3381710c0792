-- Runs scripts as a server does: KEYS, ARGV and redis are globals, no other global can be read or made.

local keyspace, commands = ...

-- How many words a command has, itself included; at least so many if negative.
local ARITY = {
  EXISTS = -2, DEL = -2, TYPE = 2, PERSIST = 2, PEXPIRE = -3, PTTL = 2, GET = 2, SET = -3, STRLEN = 2,
  HLEN = 2, HGET = 3, HEXISTS = 3, HMGET = -3, HGETALL = 2, HSET = -4, HDEL = -3, HINCRBY = 4,
  LLEN = 2, LINDEX = 3, LRANGE = 4, LPUSH = -3, RPUSH = -3, LSET = 4, LTRIM = 4,
  ZCARD = 2, ZSCORE = 3, ZADD = -4, ZREM = -3, ZRANGE = -4, ZRANGEBYSCORE = -4, ZCOUNT = 4, ZPOPMIN = -2,
}

local redis = {}

function redis.call(name, ...)
  local command = commands[name]
  if not command then
    error({ err = 'ERR Unknown Redis command called from script' }, 0)
  end
  local words, wanted = select('#', ...) + 1, ARITY[name]
  if words < math.abs(wanted) or wanted > 0 and words > wanted then
    error({ err = 'ERR Wrong number of args calling Redis command from script' }, 0)
  end
  return command(...)
end

function redis.pcall(...)
  local done, reply = pcall(redis.call, ...)
  if not done and type(reply) ~= 'table' then
    error(reply, 0)
  end
  return reply
end

function redis.error_reply(text)
  return { err = text }
end

function redis.status_reply(text)
  return { ok = text }
end

local environment = {
  redis = redis, tonumber = tonumber, tostring = tostring, type = type, pairs = pairs, ipairs = ipairs, next = next,
  unpack = unpack, select = select, pcall = pcall, string = string, table = table, math = math,
  setmetatable = setmetatable,
}
setmetatable(environment, {
  __index = function(_, name)
    error('Script attempted to access nonexistent global variable ' .. name)
  end,
  __newindex = function(_, name)
    error('Attempt to modify a readonly table: ' .. name)
  end,
})
rawset(environment, 'KEYS', {})
rawset(environment, 'ARGV', {})

local runner = {}

function runner.compile(source, name)
  local script, why = loadstring(source, name)
  if not script then
    return nil, why
  end
  return setfenv(script, environment)
end

function runner.set_keys(...)
  environment.KEYS = { ... }
end

-- What a reply becomes on its way out: a list ends at the first nil, true is 1; false, for a client nil, stays false.
local function add_reply(list, reply)
  for _, value in ipairs(type(reply) == 'table' and reply or { reply }) do
    list[#list + 1] = value == true and 1 or value
  end
end

-- Answers the error or false, how many values tell of changes, these, and the reply.
function runner.run(script, time_ms, time_us, ...)
  keyspace.begin(time_ms)
  redis.now_us = time_us
  environment.ARGV = { ... }
  local done, reply = pcall(script)
  local list = { false, 0 }
  keyspace.add_changes(list)
  list[2] = #list - 2
  if not done then
    list[1] = type(reply) == 'table' and reply.err or reply
  elseif type(reply) == 'table' and reply.err then
    list[1] = reply.err
  else
    add_reply(list, reply)
  end
  return unpack(list)
end

return runner
