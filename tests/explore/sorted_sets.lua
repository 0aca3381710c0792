-- The commands of sorted sets. Takes the keyspace, the table of commands to add to, and its helpers.

local keyspace, commands, helpers = ...
local fail, argument, arguments, arity = helpers.fail, helpers.argument, helpers.arguments, helpers.arity
local integer, typed = helpers.integer, helpers.typed

local function score_text(score)
  return string.format('%.17g', score)
end

local function number(text)
  local value = tonumber(text)
  if not value or not string.find(text, '^[-+]?%d') then
    fail('ERR value is not a valid float')
  end
  return value
end

commands.ZCARD = helpers.size_of('zset')

function commands.ZSCORE(key, member)
  local value = typed(key, 'zset')
  local score = value and value.data[argument(member)]
  return score and score_text(score) or false
end

function commands.ZADD(key, ...)
  local list = arguments(...)
  local only_new = list[1] == 'NX'
  local first = only_new and 2 or 1
  arity(#list > first and (#list - first) % 2 == 1)
  local scores = {}
  for position = first, #list, 2 do
    scores[position] = number(list[position])
  end
  local data = keyspace.own(key, typed(key, 'zset'), 'zset').data
  local added = 0
  for position = first, #list, 2 do
    local member = list[position + 1]
    if not data[member] then
      added = added + 1
      keyspace.remember(member)
      data[member] = scores[position]
    elseif not only_new then
      data[member] = scores[position]
    end
  end
  return added
end

function commands.ZREM(key, ...)
  local members = arguments(...)
  local value = typed(key, 'zset')
  local removed = 0
  for _, member in ipairs(members) do
    if value and value.data[member] then
      value = keyspace.own(key, value)
      value.data[member] = nil
      removed = removed + 1
    end
  end
  if removed > 0 then
    keyspace.drop_if_empty(key, value)
  end
  return removed
end

-- Members in the order of score and name.
local function in_order(data)
  local members, amount = {}, 0
  for member in pairs(data) do
    amount = amount + 1
    members[amount] = member
  end
  if amount > 1 then
    table.sort(members, function(one, other)
      local first, second = data[one], data[other]
      if first ~= second then
        return first < second
      end
      return one < other
    end)
  end
  return members
end

local function reply_with(members, first, last, data, with_scores)
  local flat = {}
  for position = first, last do
    flat[#flat + 1] = members[position]
    if with_scores then
      flat[#flat + 1] = score_text(data[members[position]])
    end
  end
  return flat
end

local function wants_scores(option)
  if option ~= nil and argument(option) ~= 'WITHSCORES' then
    fail('ERR syntax error')
  end
  return option ~= nil
end

function commands.ZRANGE(key, start, stop, option)
  local first, last = integer(argument(start)), integer(argument(stop))
  local with_scores = wants_scores(option)
  local value = typed(key, 'zset')
  if not value then
    return {}
  end
  local members = in_order(value.data)
  first = math.max(first < 0 and first + #members or first, 0)
  last = math.min(last < 0 and last + #members or last, #members - 1)
  return reply_with(members, first + 1, last + 1, value.data, with_scores)
end

-- One end of a range of scores: the number, and whether it is left out.
local function bound(text)
  text = argument(text)
  if text == '-inf' then
    return -math.huge, false
  elseif text == '+inf' or text == 'inf' then
    return math.huge, false
  end
  local open = string.sub(text, 1, 1) == '('
  local value = tonumber(open and string.sub(text, 2) or text)
  if not value then
    fail('ERR min or max is not a float')
  end
  return value, open
end

local function within(data, low, high)
  local lowest, above = bound(low)
  local highest, below = bound(high)
  local members = {}
  for _, member in ipairs(in_order(data)) do
    local score = data[member]
    if (score > lowest or score == lowest and not above) and (score < highest or score == highest and not below) then
      members[#members + 1] = member
    end
  end
  return members
end

function commands.ZRANGEBYSCORE(key, low, high, ...)
  local options = arguments(...)
  local with_scores, offset, limit = false, 0, -1
  local position = 1
  while position <= #options do
    if options[position] == 'WITHSCORES' then
      with_scores = true
      position = position + 1
    elseif options[position] == 'LIMIT' then
      arity(#options >= position + 2)
      offset, limit = integer(options[position + 1]), integer(options[position + 2])
      position = position + 3
    else
      fail('ERR syntax error')
    end
  end
  bound(low)
  bound(high)
  local value = typed(key, 'zset')
  if not value or offset < 0 then
    return {}
  end
  local members = within(value.data, low, high)
  local last = limit < 0 and #members or math.min(offset + limit, #members)
  return reply_with(members, offset + 1, last, value.data, with_scores)
end

function commands.ZCOUNT(key, low, high)
  bound(low)
  bound(high)
  local value = typed(key, 'zset')
  return value and #within(value.data, low, high) or 0
end

function commands.ZPOPMIN(key, amount)
  local limit = integer(argument(amount or '1'))
  local value = typed(key, 'zset')
  if not value then
    return {}
  end
  local members = in_order(value.data)
  local popped = reply_with(members, 1, math.min(limit, #members), value.data, true)
  for position = 1, #popped, 2 do
    commands.ZREM(key, popped[position])
  end
  return popped
end
