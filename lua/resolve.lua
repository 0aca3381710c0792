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
-- ARGV[9...]  effect verdict
-- Returns     ok status fence
-- Returns     unknown
-- Returns     unknown_effect name
-- Returns     conflict reason status token decided_by decided decided_at
-- Uses        decision

local durable = ARGV[1]
local id = ARGV[2]
local decision = ARGV[3]
local token = ARGV[4]
local nonce = ARGV[5]
local by = ARGV[6]
local reason = ARGV[7]
local result = ARGV[8]

local GOES_TO = { done = 'completed', retry = 'ready', dead = 'dead' }

local function unknown_effect(task)
  for position = 9, #ARGV, 2 do
    if ARGV[position] ~= 'handler' or not task.fields.handler_open then
      return { 'unknown_effect', ARGV[position] }
    end
  end
end

local function still_open_after(task)
  local decided = (#ARGV - 8) / 2
  return number_of(task, 'open_effects') - decided
end

local function not_now(task)
  local fields = task.fields
  local terminal_in_doubt = TERMINAL[fields.status] and number_of(task, 'open_effects') > 0
  if (fields.fencing_token or '') ~= token then
    return conflict(task, 'token')
  elseif fields.status ~= 'reconciling' and not (terminal_in_doubt and decision ~= 'retry') then
    return conflict(task, 'status')
  elseif decision == 'retry' and still_open_after(task) > 0 then
    return conflict(task, 'open_effects')
  end
end

-- Closing the last effect of a terminal task lets its retention begin.
local function settle_effects(task)
  leave('unsettled', id)
  enter(task.fields.status, now, id)
end

local function resolve()
  local task = read_task(id)
  if not task then
    return { 'unknown' }
  end
  local answer = decided_before(task, nonce) or not_now(task) or unknown_effect(task)
  if answer then
    return answer
  end
  local from = task.fields.status
  raise_fence()
  if #ARGV > 8 then
    close_handler(task)
  end
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
  local found = {}
  for position = 9, #ARGV, 2 do
    found[#found + 1] = json_string(ARGV[position]) .. ':' .. json_string(ARGV[position + 1])
  end
  note(id, evidence_line('effects_decided', 'by', json_string(by), 'effects', '{' .. table.concat(found, ',') .. '}'))
  return record_decision(task, { verb = 'resolve', nonce = nonce, by = by, reason = reason }, from)
end

local reply = resolve()
commit()
return finish(reply, durable)
