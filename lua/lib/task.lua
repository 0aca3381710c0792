-- Uses queue plan
--
-- A task as the script sees it: its hash, read once, and the changes planned for it. Later lines of the same call see
-- those changes.

local tasks = {}

-- The hash as a table, nil when there is none, false when the key holds something else.
local function read_hash(key)
  local flat = read_or_nil('HGETALL', key)
  if not flat then
    return false
  elseif #flat == 0 then
    return nil
  end
  local fields = {}
  for position = 1, #flat, 2 do
    fields[flat[position]] = flat[position + 1]
  end
  return fields
end

-- Answers the task, or nil with the word `unknown` or `broken`.
local function read_task(id)
  local task = tasks[id]
  if task then
    return task
  end
  local key = prefix .. 'task:' .. id
  local fields = read_hash(key)
  if not fields then
    return nil, fields == nil and 'unknown' or 'broken'
  end
  task = { id = id, key = key, fields = fields, set = {}, dropped = {}, planned = false }
  tasks[id] = task
  return task
end

local function plan_task(task)
  if not task.planned then
    task.planned = true
    plan.tasks[#plan.tasks + 1] = task
  end
end

local function put(task, field, value)
  plan_task(task)
  task.fields[field] = value
  task.dropped[field] = nil
  task.set[#task.set + 1] = field
  task.set[#task.set + 1] = value
end

-- Several fields at once: a flat list of names and values, which becomes the task's own.
local function put_all(task, list)
  plan_task(task)
  local fields, dropped, set = task.fields, task.dropped, task.set
  for position = 1, #list, 2 do
    local field = list[position]
    fields[field] = list[position + 1]
    dropped[field] = nil
  end
  if #set == 0 then
    task.set = list
    return
  end
  for position = 1, #list do
    set[#set + 1] = list[position]
  end
end

local function drop(task, field)
  if task.fields[field] then
    plan_task(task)
    task.fields[field] = nil
    task.dropped[field] = true
  end
end

local function number_of(task, field)
  return tonumber(task.fields[field] or DEFAULT[field] or '0')
end

-- Counts up to what a double holds exactly; beyond that a counter stands still.
local function counted_up(task, field, amount)
  return math.min(number_of(task, field) + (amount or 1), LIMIT.integer)
end

local function increase(task, field, amount)
  local value = counted_up(task, field, amount)
  put(task, field, int(value))
  return value
end

-- A task starts with a hash that is not there yet; enqueue has read the key.
local function new_task(id)
  local task = { id = id, key = prefix .. 'task:' .. id, fields = {}, set = {}, dropped = {}, planned = false }
  tasks[id] = task
  return task
end
