-- Uses     queue plan json
-- Exports  log_of evidence_line note note_late
--
-- The evidence of a task: a list of JSON lines. Once there were late calls or lines beyond the budget, a head stands
-- before them with their counts and with which late calls were noted; it is written anew when one of them changes.
-- Nothing that was written is trimmed away: beyond its budget a kind of line only moves a counter.
--
-- Most logs are only added to, so their length is learned from adding: the lines of one call go in one RPUSH.

local logs = {}
local allowed = false

-- Reads a log, once per call: whoever may not touch evidence learns it before anything was written.
local function check_access(key)
  if not allowed then
    allowed = true
    read_or_nil('LLEN', key)
  end
end

local function log_of(id)
  local log = logs[id]
  if not log then
    local key = prefix .. 'evidence:' .. id
    check_access(key)
    log = { key = key, lines = false, late_lines = false, head = false }
    logs[id] = log
  end
  return log
end

local NO_HEAD = '{"late":0,"dropped":0,"late_calls":[]}'

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
      stored = stored, changed = false,
      late = tonumber(string.match(text, '"late":(%d+)') or '0'),
      dropped = tonumber(string.match(text, '"dropped":(%d+)') or '0'),
      pairs = string.match(text, '"late_calls":%[(.*)%]}$') or '',
    }
  end
  return log.head
end

local function write_head(log)
  local head = log.head
  local text = '{"late":' .. int(head.late) .. ',"dropped":' .. int(head.dropped) .. ',"late_calls":[' .. head.pairs .. ']}'
  if head.stored then
    redis.call('LSET', log.key, 0, text)
  else
    redis.call('LPUSH', log.key, text)
    head.stored = true
  end
  head.changed = false
end

-- Takes back what went beyond the budget, which lines of late calls do not count towards.
local function take_back(log, length, added)
  local head = read_head(log)
  local beyond = length - (head.stored and 1 or 0) - head.late - LIMIT.structural_lines
  if beyond > 0 then
    local dropped = math.min(beyond, added)
    redis.call('LTRIM', log.key, 0, -1 - dropped)
    head.dropped = head.dropped + dropped
    head.changed = true
  end
end

local function push_within_budget(log, lines)
  local length = read_or_nil('RPUSH', log.key, unpack(lines))
  if length and length > LIMIT.structural_lines then
    take_back(log, length, #lines)
  end
end

local function write_log(log)
  local lines, late_lines = log.lines, log.late_lines
  log.lines, log.late_lines = false, false
  if late_lines then
    redis.call('RPUSH', log.key, unpack(late_lines))
  end
  if lines and #lines <= LIMIT.unpack then
    push_within_budget(log, lines)
  elseif lines then
    for first = 1, #lines, LIMIT.unpack do
      push_within_budget(log, { unpack(lines, first, math.min(first + LIMIT.unpack - 1, #lines)) })
    end
  end
  if log.head and log.head.changed then
    write_head(log)
  end
end

plan.write_log = write_log

local function plan_log(log)
  if not log.lines and not log.late_lines then
    plan.logs[#plan.logs + 1] = log
  end
end

-- One line: an event, the time and pairs of a name and a value already in JSON.
local function evidence_line(event, ...)
  local parts = { '{"event":', json_string(event), ',"at":', int(now) }
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
  local log = log_of(id)
  plan_log(log)
  if log.lines then
    log.lines[#log.lines + 1] = line
  else
    log.lines = { line }
  end
end

-- A refused call that would have changed something, once for each token and verb.
local function note_late(id, event, token, verb, ...)
  local log = log_of(id)
  local head = read_head(log)
  if not head then
    return
  end
  local call = json_string(token .. ' ' .. verb)
  if string.find(head.pairs, call, 1, true) or head.late >= LIMIT.late_lines then
    return
  end
  head.late = head.late + 1
  head.pairs = head.pairs == '' and call or head.pairs .. ',' .. call
  head.changed = true
  plan_log(log)
  log.late_lines = log.late_lines or {}
  log.late_lines[#log.late_lines + 1] = evidence_line(event, 'verb', json_string(verb), 'token', json_string(token), ...)
end
