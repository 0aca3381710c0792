-- Uses     task
-- Exports  awaits_start start_handler close_one close_handler
--
-- What a handler is known to have begun: the implicit effect `handler`, and the count of open effects.

-- The implicit effect of a non-idempotent task that records none: open from its start until an ending that knows.
local function has_implicit_effect(task)
  return task.fields.side_effect == 'non_idempotent' and not task.fields.records_effects
end

-- Whether the holder still has to say that its handler begins.
local function awaits_start(task)
  return task.fields.unstarted or has_implicit_effect(task) and not task.fields.handler_open
end

local function start_handler(task)
  drop(task, 'unstarted')
  if has_implicit_effect(task) then
    put(task, 'handler_open', '1')
    increase(task, 'open_effects')
  end
end

local function close_one(task)
  local left = number_of(task, 'open_effects') - 1
  if left > 0 then
    put(task, 'open_effects', int(left))
  else
    drop(task, 'open_effects')
  end
end

local function close_handler(task)
  if task.fields.handler_open then
    drop(task, 'handler_open')
    close_one(task)
  end
end
