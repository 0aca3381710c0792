-- Uses     defaults numbers queue
-- Exports  plan checked expect leave enter fill put_value drop_value write write_field count commit add_values finish
--
-- What a script is going to write. Scripts read and decide first, noting every change here; noting a change to a key
-- also reads the key, so that a key of the wrong type, one that the user may not touch or one whose slot is moving ends
-- the script before anything was written. `commit` is the only function that writes tasks and indexes.

local plan = {}
local checked = {}
local writing = false

local SIZE_OF = { zset = 'ZCARD', hash = 'HLEN', list = 'LLEN', string = 'STRLEN' }

local function plan_nothing()
  plan.tasks, plan.sets, plan.leaves, plan.enters, plan.fills = {}, {}, {}, {}, {}
  plan.commands, plan.fields, plan.counts, plan.logs, plan.notes = {}, {}, {}, {}, {}
end

plan_nothing()

-- Reads a key that will be written, once per call; answers its size as first seen.
local function expect(kind, name)
  local size = checked[name]
  if not size then
    size = redis.call(SIZE_OF[kind], prefix .. name)
    checked[name] = size
  end
  return size
end

-- The list of changes to one key, which is read when the first of them is noted.
local function list_for(lists, kind, name)
  expect(kind, name)
  local list = {}
  lists[name] = list
  return list
end

local function append_pair(list, first, second)
  local size = #list
  list[size + 1] = first
  list[size + 2] = second
end

-- A task leaves and enters indexes only through these two.
local function leave(index, id)
  local list = plan.leaves[index] or list_for(plan.leaves, 'zset', index)
  list[#list + 1] = id
end

local function enter(index, score, id)
  append_pair(plan.enters[index] or list_for(plan.enters, 'zset', index), int(score), id)
end

-- Enters an index unless the task is there already: for ids that stray indexes hold.
local function fill(index, score, id)
  append_pair(plan.fills[index] or list_for(plan.fills, 'zset', index), int(score), id)
end

local function put_value(hash, id, value)
  append_pair(plan.sets[hash] or list_for(plan.sets, 'hash', hash), id, value)
end

local function drop_value(hash, id)
  if expect('hash', hash) > 0 then
    plan.commands[#plan.commands + 1] = { 'HDEL', prefix .. hash, id }
  end
end

-- Any other write; the caller has read the key.
local function write(...)
  plan.commands[#plan.commands + 1] = { ... }
end

-- One field of a hash that the caller has read.
local function write_field(key, field, value)
  local fields = plan.fields
  local size = #fields
  fields[size + 1] = key
  fields[size + 2] = field
  fields[size + 3] = value
end

local function count(counter, amount)
  plan.counts[counter] = (plan.counts[counter] or 0) + (amount or 1)
end

local function call_in_parts(command, name, option, list)
  local key = prefix .. name
  for first = 1, #list, LIMIT.unpack do
    local last = math.min(first + LIMIT.unpack - 1, #list)
    if option then
      redis.call(command, key, option, unpack(list, first, last))
    else
      redis.call(command, key, unpack(list, first, last))
    end
  end
end

-- At maxmemory a script may go on writing if its first write frees or changes nothing; so a PERSIST leads every script
-- that must work then. The verbs that must be refused there do not call this.
local function begin_writes()
  if not writing then
    writing = true
    redis.call('PERSIST', KEYS[1])
  end
end

local function commit_meta()
  local fields = {}
  if not meta[1] then
    fields = { 'layout', LAYOUT }
    meta[1] = LAYOUT
  end
  if fence ~= stored_fence then
    fields[#fields + 1] = 'fence'
    fields[#fields + 1] = int(fence)
    stored_fence = fence
  end
  if sequence ~= stored_sequence then
    fields[#fields + 1] = 'sequence'
    fields[#fields + 1] = int(sequence)
    stored_sequence = sequence
  end
  if #fields > 0 then
    redis.call('HSET', KEYS[1], unpack(fields))
  end
end

local function commit_fields(fields)
  for position = 1, #fields, 3 do
    redis.call('HSET', fields[position], fields[position + 1], fields[position + 2])
  end
end

local function commit_task(task)
  if task.set then
    redis.call('HSET', task.key, unpack(task.set))
    task.set = false
  end
  if task.dropped then
    redis.call('HDEL', task.key, unpack(task.dropped))
    task.dropped = false
  end
end

local function nothing_planned()
  return #plan.tasks == 0 and #plan.commands == 0 and #plan.fields == 0 and #plan.logs == 0 and #plan.notes == 0
    and next(plan.leaves) == nil and next(plan.enters) == nil and next(plan.fills) == nil and next(plan.sets) == nil
    and next(plan.counts) == nil
    and fence == stored_fence and sequence == stored_sequence
end

local function commit(creating)
  if nothing_planned() then
    return
  end
  if not creating then
    begin_writes()
  end
  commit_meta()
  for _, task in ipairs(plan.tasks) do
    commit_task(task)
  end
  for hash, list in pairs(plan.sets) do
    call_in_parts('HSET', hash, nil, list)
  end
  for index, list in pairs(plan.leaves) do
    call_in_parts('ZREM', index, nil, list)
  end
  for index, list in pairs(plan.enters) do
    call_in_parts('ZADD', index, nil, list)
  end
  for index, list in pairs(plan.fills) do
    call_in_parts('ZADD', index, 'NX', list)
  end
  commit_fields(plan.fields)
  for _, command in ipairs(plan.commands) do
    redis.call(unpack(command))
  end
  for _, log in ipairs(plan.logs) do
    plan.write_log(log)
  end
  if #plan.notes > 0 then
    plan.write_notes(plan.notes)
  end
  for counter, amount in pairs(plan.counts) do
    redis.call('HINCRBY', KEYS[1], counter, amount)
  end
  plan_nothing()
end

-- Adds several values to a reply.
local function add_values(reply, values)
  local size = #reply
  for position = 1, #values do
    reply[size + position] = values[position]
  end
end

-- The end of every script. A durable call makes one replicated write even when it changed nothing: a server with a
-- replica confirms only what this connection has written.
local function finish(reply, durable)
  if durable == '1' then
    begin_writes()
    redis.call('HSET', KEYS[1], 'confirmed', now_text)
  end
  return reply
end
