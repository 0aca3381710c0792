-- The keys of one small Redis, as plain Lua tables. A state is loaded as texts, parsed when a script first reads them;
-- what a script writes goes to a copy, so that the next script starts from the same state again.

local texts, parsed, written, touched = {}, {}, {}, {}
local now_ms = 0

-- Every field and member ever seen, in the order of its first sight: texts list them in this order, without a sort.
local names, known = {}, {}

local function remember(name)
  if not known[name] then
    known[name] = true
    names[#names + 1] = name
  end
end

local KIND_OF_TEXT = { h = 'hash', z = 'zset', l = 'list', s = 'string' }

-- Text of a value: its kind, when it expires or nothing, then its items; each ends with a NUL.
local function parse(text)
  local items = {}
  for item in string.gmatch(text, '([^%z]*)%z') do
    items[#items + 1] = item
  end
  local value = { kind = KIND_OF_TEXT[items[1]], ttl = tonumber(items[2]) }
  if value.kind == 'string' then
    value.data = items[3]
    return value
  end
  local data = {}
  if value.kind == 'list' then
    for position = 3, #items do
      data[position - 2] = items[position]
    end
  else
    local scores = value.kind == 'zset'
    for position = 3, #items, 2 do
      local name = items[position]
      remember(name)
      data[name] = scores and tonumber(items[position + 1]) or items[position + 1]
    end
  end
  value.data = data
  return value
end

local function text_of(value)
  local parts = { string.sub(value.kind, 1, 1), value.ttl and string.format('%.0f', value.ttl) or '' }
  local amount = 2
  local data = value.data
  if value.kind == 'string' then
    parts[3] = data
    amount = 3
  elseif value.kind == 'list' then
    for position = 1, #data do
      parts[amount + position] = data[position]
    end
    amount = amount + #data
  else
    local scores = value.kind == 'zset'
    for position = 1, #names do
      local item = data[names[position]]
      if item then
        parts[amount + 1] = names[position]
        parts[amount + 2] = scores and string.format('%.17g', item) or item
        amount = amount + 2
      end
    end
  end
  parts[amount + 1] = ''
  return table.concat(parts, '\0')
end

local keyspace = { remember = remember }

-- The value of a key, of whatever kind; false when there is none.
function keyspace.read(key)
  local value = written[key]
  touched[key] = true
  if value == nil then
    value = parsed[key]
    if value == nil then
      value = texts[key] and parse(texts[key]) or false
      parsed[key] = value
    end
  end
  if value and value.ttl and now_ms > value.ttl then
    return false
  end
  return value
end

local function copy_of(value)
  local data = value.data
  if type(data) == 'table' then
    data = {}
    for name, item in pairs(value.data) do
      data[name] = item
    end
  end
  return { kind = value.kind, ttl = value.ttl, data = data }
end

-- The value of a key for writing: a copy, or a new one of that kind.
function keyspace.own(key, value, kind)
  if value and written[key] == value then
    return value
  end
  local mine = value and copy_of(value) or { kind = kind, data = {} }
  written[key] = mine
  return mine
end

function keyspace.set(key, value)
  touched[key] = true
  written[key] = value
end

-- A collection without members is no key.
function keyspace.drop_if_empty(key, value)
  if next(value.data) == nil then
    written[key] = false
  end
end

function keyspace.now_ms()
  return now_ms
end

-- From here on: what Python calls.

-- Replaces the whole state by keys and their texts, in turn.
function keyspace.load(...)
  texts, parsed, written = {}, {}, {}
  local given = { ... }
  for position = 1, #given, 2 do
    texts[given[position]] = given[position + 1]
  end
end

-- Sets the time, and forgets what the last script did.
function keyspace.begin(time_ms)
  now_ms = time_ms
  touched = {}
  if next(written) ~= nil then
    written = {}
  end
end

function keyspace.touched()
  local keys = {}
  for key in pairs(touched) do
    keys[#keys + 1] = key
  end
  return keys
end

-- What the last script changed: keys and their new texts, '' for a deleted one.
function keyspace.add_changes(list)
  local amount = #list
  for key, value in pairs(written) do
    local text = value and text_of(value) or ''
    if text ~= (texts[key] or '') then
      list[amount + 1] = key
      list[amount + 2] = text
      amount = amount + 2
    end
  end
end

return keyspace
