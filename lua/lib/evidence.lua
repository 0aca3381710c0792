-- Uses     queue plan json
-- Exports  evidence_line note note_late key_of log_of plan_log read_head head_text
--
-- The evidence of a task: a list of JSON lines. Once there were late calls, lines beyond the budget or an earlier task of
-- the same id, a head stands before them with their counts and with which late calls were noted; it is written anew when
-- one of them changes. Nothing that was written is trimmed away while it is retained: beyond its budget a kind of line
-- only moves a counter. A task that takes an id anew has a budget of its own.
--
-- Most logs are only added to, so their length is learned from adding.

local logs = {}
local allowed = false

-- Reads a log, once per call: whoever may not touch evidence learns it before anything was written.
local function key_of(id)
  local key = prefix .. 'evidence:' .. id
  if not allowed then
    allowed = true
    read_or_nil('LLEN', key)
  end
  return key
end

-- A log of which the head is read or changed.
local function log_of(key)
  local log = logs[key]
  if not log then
    log = { key = key, late_lines = false, head = false, planned = false }
    logs[key] = log
  end
  return log
end

-- Puts a log among those whose head `commit` writes.
local function plan_log(log)
  if not log.planned then
    log.planned = true
    plan.logs[#plan.logs + 1] = log
  end
end

local NO_HEAD = '{"late":0,"stale":0,"dropped":0,"before":0,"fence":0,"late_calls":[]}'

local function number_in(text, name)
  return tonumber(string.match(text, '"' .. name .. '":(%d+)') or '0')
end

-- Answers nothing for a log of the wrong type, which costs its lines, not the task.
local function read_head(log)
  if not log.head then
    local first = read_or_nil('LINDEX', log.key, 0)
    if first == nil then
      return nil
    end
    local stored = first and string.find(first, '{"late":', 1, true) == 1
    local text = stored and first or NO_HEAD
    log.head = {
      stored = stored,
      late = number_in(text, 'late'),
      stale = number_in(text, 'stale'),
      dropped = number_in(text, 'dropped'),
      before = number_in(text, 'before'),
      fence = number_in(text, 'fence'),
      pairs = string.match(text, '"late_calls":%[(.*)%]}$') or '',
    }
  end
  return log.head
end

local function head_text(head)
  return '{"late":' .. int(head.late) .. ',"stale":' .. int(head.stale) .. ',"dropped":' .. int(head.dropped)
    .. ',"before":' .. int(head.before) .. ',"fence":' .. int(head.fence) .. ',"late_calls":[' .. head.pairs .. ']}'
end

local function write_head(log)
  local head = log.head
  local text = head_text(head)
  if head.stored then
    redis.call('LSET', log.key, 0, text)
  else
    redis.call('LPUSH', log.key, text)
    head.stored = true
  end
end

local function is_of_effect(line)
  return string.find(line, '^{"event":"intent"') or string.find(line, '^{"event":"outcome"')
end

-- Takes back a line that went beyond the budget. Lines of late calls and of earlier tasks do not count towards it, and
-- those of effects leave a rest of it to endings and decisions.
local function write_within_budget(key, length, line)
  local head = read_head(log_of(key))
  local counted = length - (head.stored and 1 or 0) - head.late - head.stale - head.before
  if counted > (is_of_effect(line) and LIMIT.effect_lines or LIMIT.structural_lines) then
    redis.call('LTRIM', key, 0, -2)
    head.dropped = head.dropped + 1
    write_head(log_of(key))
  end
end

local function write_log(log)
  if log.late_lines then
    redis.call('RPUSH', log.key, unpack(log.late_lines))
    log.late_lines = false
  end
  log.planned = false
  write_head(log)
end

-- A log of the wrong type costs its lines, not the task; any other error is raised.
local function write_notes(notes)
  for position = 1, #notes, 2 do
    local key = notes[position]
    local length = redis.pcall('RPUSH', key, notes[position + 1])
    if type(length) ~= 'number' then
      read_or_nil('RPUSH', key, notes[position + 1])
    elseif length > LIMIT.effect_lines then
      write_within_budget(key, length, notes[position + 1])
    end
  end
end

-- One line: an event, the time and pairs of a name and a value already in JSON.
local function evidence_line(event, ...)
  local parts = { '{"event":', json_string(event), ',"at":', now_text }
  local values = { ... }
  for position = 1, #values, 2 do
    parts[#parts + 1] = ',"' .. values[position] .. '":'
    parts[#parts + 1] = values[position + 1]
  end
  parts[#parts + 1] = '}'
  return table.concat(parts)
end

-- What belongs to the life of the task: leases, decisions, effects.
local function note(id, line)
  local notes = plan.notes
  local size = #notes
  notes[size + 1] = key_of(id)
  notes[size + 2] = line
end

-- A refused call that would have changed something, once for each token and verb. Those of earlier tasks of the id have a
-- budget of their own.
local function note_late(id, event, token, verb, ...)
  local log = log_of(key_of(id))
  local head = read_head(log)
  if not head then
    return
  end
  local call = json_string(token .. ' ' .. verb)
  if string.find(head.pairs, call, 1, true) then
    return
  end
  plan_log(log)
  local kind = (tonumber(token) or 0) > head.fence and 'late' or 'stale'
  if head[kind] >= LIMIT.late_lines then
    head.dropped = head.dropped + 1
    return
  end
  head[kind] = head[kind] + 1
  head.pairs = head.pairs == '' and call or head.pairs .. ',' .. call
  log.late_lines = log.late_lines or {}
  log.late_lines[#log.late_lines + 1] = evidence_line(event, 'verb', json_string(verb), 'token', json_string(token), ...)
end

plan.write_log = write_log
plan.write_notes = write_notes
