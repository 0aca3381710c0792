-- Uses     queue plan
-- Exports  read_task put note_set drop number_of counted_up increase new_task
--
-- A task as the script sees it: its hash, read once, and the changes planned for it. Later lines of the same call see
-- those changes.

local tasks = {}

-- A table with room for the fields of a leased task: one that grows field by field is rebuilt five times. A field that
-- the hash does not have reads as false.
local function with_room()
  return {
    status = false, name = false, side_effect = false, created_at = false, nonce = false, sequence = false,
    lease_owner = false, lease_expires_at = false, claim_generation = false, fencing_token = false, attempts = false,
    claimed_at = false, ended = false, records_effects = false, open_effects = false, handler_open = false,
  }
end

-- The hash as a table, nil when there is none, false when the key holds something else.
local function read_hash(key)
  local flat = read_or_nil('HGETALL', key)
  if not flat then
    return false
  elseif #flat == 0 then
    return nil
  end
  local fields = with_room()
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
  task = { id = id, key = key, fields = fields, set = false, dropped = false, planned = false }
  tasks[id] = task
  return task
end

local function plan_task(task)
  task.planned = true
  plan.tasks[#plan.tasks + 1] = task
end

local function without(list, unwanted)
  local kept = {}
  for _, value in ipairs(list) do
    if value ~= unwanted then
      kept[#kept + 1] = value
    end
  end
  return #kept > 0 and kept
end

local function put(task, field, value)
  if not task.planned then
    plan_task(task)
  end
  task.fields[field] = value
  if task.dropped then
    task.dropped = without(task.dropped, field)
  end
  local set = task.set
  if set then
    local size = #set
    set[size + 1] = field
    set[size + 2] = value
  else
    task.set = { field, value }
  end
end

-- Notes several fields at once, whose values `task.fields` has already and of which none was dropped before: a flat
-- list of names and values.
local function note_set(task, list)
  if not task.planned then
    plan_task(task)
  end
  local set = task.set
  if not set then
    task.set = list
    return
  end
  for position = 1, #list do
    set[#set + 1] = list[position]
  end
end

local function drop(task, field)
  if task.fields[field] then
    if not task.planned then
      plan_task(task)
    end
    task.fields[field] = false
    local dropped = task.dropped
    if dropped then
      dropped[#dropped + 1] = field
    else
      task.dropped = { field }
    end
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
  local task = { id = id, key = prefix .. 'task:' .. id, fields = {}, set = false, dropped = false, planned = false }
  tasks[id] = task
  return task
end
