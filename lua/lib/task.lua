-- Uses     queue plan
-- Exports  read_task read_lease read_to_begin read_to_complete put note_set drop number_of counted_up increase new_task
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
  task = { id = id, key = key, fields = fields, set = false, dropped = false }
  tasks[id] = task
  return task
end

-- A hash of which only a part was read has its key in place 1. Whoever asks for another field has the rest read.
local function read_rest(fields, name)
  local rest = read_hash(fields[1]) or {}
  setmetatable(fields, nil)
  for field, value in pairs(rest) do
    if fields[field] == nil then
      fields[field] = value
    end
  end
  return fields[name]
end

local READ_REST = { __index = read_rest }

local function partly_known(id, key, fields)
  setmetatable(fields, READ_REST)
  tasks[id] = { id = id, key = key, fields = fields, set = false, dropped = false }
end

-- Reads what the guard asks and which effects are open, which is cheaper than the whole hash. What is no task yet, or
-- none at all, is left to `read_task`.
local function read_lease(id)
  local key = prefix .. 'task:' .. id
  local values = not tasks[id] and read_or_nil('HMGET', key, 'status', 'lease_owner', 'lease_expires_at',
    'claim_generation', 'fencing_token', 'open_effects')
  if values and values[1] then
    partly_known(id, key, {
      key, status = values[1], lease_owner = values[2], lease_expires_at = values[3], claim_generation = values[4],
      fencing_token = values[5], open_effects = values[6],
    })
  end
end

-- The same for an intent.
local function read_to_begin(id)
  local key = prefix .. 'task:' .. id
  local values = not tasks[id] and read_or_nil('HMGET', key, 'status', 'lease_owner', 'lease_expires_at',
    'claim_generation', 'fencing_token', 'open_effects', 'side_effect', 'effects')
  if values and values[1] then
    partly_known(id, key, {
      key, status = values[1], lease_owner = values[2], lease_expires_at = values[3], claim_generation = values[4],
      fencing_token = values[5], open_effects = values[6], side_effect = values[7], effects = values[8],
    })
  end
end

-- The same for a completion.
local function read_to_complete(id)
  local key = prefix .. 'task:' .. id
  local values = not tasks[id] and read_or_nil('HMGET', key, 'status', 'lease_owner', 'lease_expires_at',
    'claim_generation', 'fencing_token', 'side_effect', 'open_effects', 'claimed_at', 'renewals', 'handler_open',
    'runtime_deadline', 'unstarted')
  if values and values[1] then
    partly_known(id, key, {
      key, status = values[1], lease_owner = values[2], lease_expires_at = values[3], claim_generation = values[4],
      fencing_token = values[5], side_effect = values[6], open_effects = values[7], claimed_at = values[8],
      renewals = values[9], handler_open = values[10], runtime_deadline = values[11], unstarted = values[12],
    })
  end
end

-- Puts a task among those that `commit` writes; called for the first change to it.
local function plan_task(task)
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

-- Notes several fields at once, whose values `task.fields` has already and of which none was dropped before: a flat
-- list of names and values.
local function note_set(task, list)
  local set = task.set
  if set then
    for position = 1, #list do
      set[#set + 1] = list[position]
    end
    return
  elseif not task.dropped then
    plan_task(task)
  end
  task.set = list
end

local function put(task, field, value)
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
    -- With room for what most verbs add, so that it is not rebuilt as it grows.
    note_set(task, { field, value, nil, nil, nil, nil })
  end
end

local function drop(task, field)
  if task.fields[field] then
    task.fields[field] = false
    local dropped = task.dropped
    if dropped then
      dropped[#dropped + 1] = field
      return
    elseif not task.set then
      plan_task(task)
    end
    task.dropped = { field }
  end
end

local function number_of(task, field)
  local value = task.fields[field]
  return value and tonumber(value) or DEFAULT[field] or 0
end

-- Counts up to what a double holds exactly; beyond that a counter stands still.
local function counted_up(task, field, amount)
  local value = number_of(task, field) + (amount or 1)
  return value < LIMIT.integer and value or LIMIT.integer
end

local function increase(task, field, amount)
  local value = counted_up(task, field, amount)
  put(task, field, int(value))
  return value
end

-- A task starts with a hash that is not there yet; enqueue has read the key.
local function new_task(id)
  local task = { id = id, key = prefix .. 'task:' .. id, fields = {}, set = false, dropped = false }
  tasks[id] = task
  return task
end
