-- Records what an operator found out about a task in doubt: which effects happened, and what becomes of the task.
--
-- KEYS[1]     meta
-- KEYS[2]     never
-- ARGV[1]     durable   1: the reply will wait for replicas
-- ARGV[2]     id
-- ARGV[3]     decision  done, retry or dead
-- ARGV[4]     token     of the task as the operator saw it, or ''
-- ARGV[5]     nonce     of this decision
-- ARGV[6]     by        who decides
-- ARGV[7]     reason    why
-- ARGV[8]     result    for done: JSON, or ''
-- ARGV[9...]  key verdict outcome testimony
-- Returns     ok status fence
-- Returns     unknown
-- Returns     unknown_effect name
-- Returns     conflict reason status token decided_by decided decided_at
-- Uses        decision effects moves

local durable = ARGV[1]
local id = ARGV[2]
local decision = ARGV[3]
local token = ARGV[4]
local nonce = ARGV[5]
local by = ARGV[6]
local reason = ARGV[7]
local result = ARGV[8]

local GOES_TO = { done = 'completed', retry = 'ready', dead = 'dead' }

local WIDTH = 4

-- Whether there is something to decide about an effect: it is open, or nobody can read whether it is.
local function is_undecided(task, key)
  if key == 'handler' then
    return task.fields.handler_open
  end
  local record = read_effect(task, key)
  return record and (record.state == 'open' or record.state == 'unreadable')
end

-- An effect of an ended task may have been decided by somebody else a moment ago.
local function not_open(task)
  for first = 9, #ARGV, WIDTH do
    local key = ARGV[first]
    if not is_undecided(task, key) then
      local existed = key == 'handler' or read_effect(task, key)
      if existed and TERMINAL[task.fields.status] and task.fields.decided then
        return conflict(task, 'effect')
      end
      return { 'unknown_effect', key }
    end
  end
end

-- Whether somebody has written over one of the effects that are decided.
local function has_unreadable(task)
  for first = 9, #ARGV, WIDTH do
    local key = ARGV[first]
    local record = key ~= 'handler' and read_effect(task, key)
    if record and record.state == 'unreadable' then
      return true
    end
  end
end

local function still_open_after(task)
  local open = has_unreadable(task) and open_in_all(task) or number_of(task, 'open_effects')
  return open - (#ARGV - 8) / WIDTH
end

-- Closes the effects that were looked into; answers them as JSON, and those of which the worker's word was taken.
local function close_decided(task)
  local found, believed = {}, {}
  for first = 9, #ARGV, WIDTH do
    local key, verdict, outcome, testimony = ARGV[first], ARGV[first + 1], ARGV[first + 2], ARGV[first + 3]
    if key == 'handler' then
      close_handler(task)
    else
      local record = read_effect(task, key)
      note_begin(task, key, record)
      decide_effect(task, key, record, verdict, outcome)
    end
    found[#found + 1] = json_string(key) .. ':' .. json_string(verdict)
    if testimony == '1' then
      believed[#believed + 1] = json_string(key)
    end
  end
  return '{' .. table.concat(found, ',') .. '}', '[' .. table.concat(believed, ',') .. ']'
end

local function not_now(task)
  local fields = task.fields
  local terminal_in_doubt = TERMINAL[fields.status] and number_of(task, 'open_effects') > 0
  if (fields.fencing_token or '') ~= token then
    return conflict(task, 'token')
  elseif fields.status ~= 'reconciling' and not (terminal_in_doubt and decision ~= 'retry') then
    return conflict(task, 'status')
  elseif decision == 'retry' and still_open_after(task) > 0 or terminal_in_doubt and #ARGV == 8 then
    return conflict(task, 'open_effects')
  end
end

-- Closing the last effect of a terminal task lets its retention begin.
local function settle_effects(task)
  leave('unsettled', id)
  enter(task.fields.status, now, id)
end

local function refusal(task)
  return not_now(task) or not_open(task)
end

local function resolve(task, from)
  raise_fence()
  if has_unreadable(task) then
    adopt_unreadable(task)
  end
  local effects, believed = close_decided(task)
  forgive(task)
  if from == 'reconciling' then
    if result ~= '' and decision == 'done' then
      put_value('results', id, result)
    end
    move(task, GOES_TO[decision])
  elseif number_of(task, 'open_effects') == 0 then
    settle_effects(task)
  end
  count('resolved')
  note(id, evidence_line('effects_decided', 'by', json_string(by), 'effects', effects, 'testimony', believed))
end

local reply = decide(id, { verb = 'resolve', nonce = nonce, by = by, reason = reason }, refusal, resolve)
commit()
return finish(reply, durable)
