-- The commands that the scripts use, and a few that a wrong script might. Takes the keyspace; returns a table from a
-- command's name to a function that answers what `redis.call` would, or raises what it would raise.

local keyspace = ...
local read, own = keyspace.read, keyspace.own
local drop_if_empty, remember = keyspace.drop_if_empty, keyspace.remember

local WRONG_TYPE = 'WRONGTYPE Operation against a key holding the wrong kind of value'
local OK = { ok = 'OK' }

local function fail(text)
  error({ err = text }, 0)
end

local function argument(value)
  if type(value) == 'number' then
    return string.format('%.17g', value)
  elseif type(value) ~= 'string' then
    fail('ERR Lua redis lib command arguments must be strings or integers')
  end
  return value
end

local function arguments(...)
  local list = { ... }
  for position = 1, select('#', ...) do
    list[position] = argument(list[position])
  end
  return list
end

local function arity(right)
  if not right then
    fail('ERR wrong number of arguments')
  end
end

local function integer(text)
  local number = tonumber(text)
  if not number or number % 1 ~= 0 or not string.find(text, '^-?%d+$') then
    fail('ERR value is not an integer or out of range')
  end
  return number
end

local function typed(key, kind)
  local value = read(argument(key))
  if value and value.kind ~= kind then
    fail(WRONG_TYPE)
  end
  return value
end

local commands = {}

local function size_of(kind)
  return function(key)
    local value = typed(key, kind)
    local amount = 0
    if value then
      for _ in pairs(value.data) do
        amount = amount + 1
      end
    end
    return amount
  end
end

-- Keys

function commands.EXISTS(...)
  local amount = 0
  for _, key in ipairs(arguments(...)) do
    amount = amount + (read(key) and 1 or 0)
  end
  return amount
end

function commands.DEL(...)
  local amount = 0
  for _, key in ipairs(arguments(...)) do
    if read(key) then
      amount = amount + 1
      keyspace.set(key, false)
    end
  end
  return amount
end

function commands.TYPE(key)
  local value = read(argument(key))
  return { ok = value and value.kind or 'none' }
end

function commands.PERSIST(key)
  local value = read(argument(key))
  if not value or not value.ttl then
    return 0
  end
  own(key, value).ttl = nil
  return 1
end

function commands.PEXPIRE(key, milliseconds)
  local value = read(argument(key))
  local length = integer(argument(milliseconds))
  if not value then
    return 0
  elseif length <= 0 then
    keyspace.set(key, false)
  else
    own(key, value).ttl = keyspace.now_ms() + length
  end
  return 1
end

function commands.PTTL(key)
  local value = read(argument(key))
  return value and (value.ttl and value.ttl - keyspace.now_ms() or -1) or -2
end

-- Strings

function commands.GET(key)
  local value = typed(key, 'string')
  return value and value.data
end

function commands.SET(key, text)
  keyspace.set(argument(key), { kind = 'string', data = argument(text) })
  return OK
end

function commands.STRLEN(key)
  local value = typed(key, 'string')
  return value and #value.data or 0
end

-- Hashes

commands.HLEN = size_of('hash')

function commands.HGET(key, field)
  local value = typed(key, 'hash')
  return value and value.data[argument(field)] or false
end

function commands.HEXISTS(key, field)
  return commands.HGET(key, field) and 1 or 0
end

function commands.HMGET(key, ...)
  local fields = arguments(...)
  local value = typed(key, 'hash')
  for position = 1, #fields do
    fields[position] = value and value.data[fields[position]] or false
  end
  return fields
end

function commands.HGETALL(key)
  local value = typed(key, 'hash')
  local flat, amount = {}, 0
  if value then
    for field, item in pairs(value.data) do
      flat[amount + 1] = field
      flat[amount + 2] = item
      amount = amount + 2
    end
  end
  return flat
end

function commands.HSET(key, ...)
  local list = arguments(...)
  arity(#list % 2 == 0)
  local data = own(key, typed(key, 'hash'), 'hash').data
  local added = 0
  for position = 1, #list, 2 do
    local field = list[position]
    if not data[field] then
      added = added + 1
      remember(field)
    end
    data[field] = list[position + 1]
  end
  return added
end

function commands.HDEL(key, ...)
  local fields = arguments(...)
  local value = typed(key, 'hash')
  local removed = 0
  for _, field in ipairs(fields) do
    if value and value.data[field] then
      value = own(key, value)
      value.data[field] = nil
      removed = removed + 1
    end
  end
  if removed > 0 then
    drop_if_empty(key, value)
  end
  return removed
end

function commands.HINCRBY(key, field, amount)
  local by = integer(argument(amount))
  local value = typed(key, 'hash')
  local old = value and value.data[argument(field)] or '0'
  if not string.find(old, '^-?%d+$') then
    fail('ERR hash value is not an integer')
  end
  local new = tonumber(old) + by
  commands.HSET(key, field, string.format('%.0f', new))
  return new
end

-- Lists

function commands.LLEN(key)
  local value = typed(key, 'list')
  return value and #value.data or 0
end

local function from_end(position, size)
  return position < 0 and position + size or position
end

function commands.LINDEX(key, index)
  local value = typed(key, 'list')
  return value and value.data[from_end(integer(argument(index)), #value.data) + 1] or false
end

local function slice(data, start, stop)
  local first = math.max(from_end(start, #data), 0)
  local last = math.min(from_end(stop, #data), #data - 1)
  local part = {}
  for position = first, last do
    part[#part + 1] = data[position + 1]
  end
  return part
end

function commands.LRANGE(key, start, stop)
  local first, last = integer(argument(start)), integer(argument(stop))
  local value = typed(key, 'list')
  return value and slice(value.data, first, last) or {}
end

function commands.RPUSH(key, ...)
  local items = arguments(...)
  local data = own(key, typed(key, 'list'), 'list').data
  for _, item in ipairs(items) do
    data[#data + 1] = item
  end
  return #data
end

function commands.LPUSH(key, ...)
  local data = own(key, typed(key, 'list'), 'list').data
  for _, item in ipairs(arguments(...)) do
    table.insert(data, 1, item)
  end
  return #data
end

function commands.LSET(key, index, item)
  local text = argument(item)
  local value = typed(key, 'list')
  if not value then
    fail('ERR no such key')
  end
  local position = from_end(integer(argument(index)), #value.data) + 1
  if position < 1 or position > #value.data then
    fail('ERR index out of range')
  end
  own(key, value).data[position] = text
  return OK
end

function commands.LTRIM(key, start, stop)
  local first, last = integer(argument(start)), integer(argument(stop))
  local value = typed(key, 'list')
  if value then
    value = own(key, value)
    value.data = slice(value.data, first, last)
    drop_if_empty(key, value)
  end
  return OK
end

return commands, { fail = fail, argument = argument, arguments = arguments, arity = arity, integer = integer,
  typed = typed, size_of = size_of }
