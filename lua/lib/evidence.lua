-- Uses     queue plan json
-- Exports  log_of evidence_line note note_late
--
-- The evidence of a task: a list of JSON lines. Element 0 holds the counts and which late calls were noted; it is written
-- anew when one of them changes. Nothing is trimmed away: beyond its budget a kind of line only moves a counter.

-- A log of the wrong type costs its lines, not the task.
local function open_log(id)
  local key = prefix .. 'evidence:' .. id
  local length = read_or_nil('LLEN', key)
  return length and { key = key, length = length }
end

local logs = {}

local function log_of(id)
  if logs[id] == nil then
    logs[id] = open_log(id) or false
  end
  return logs[id]
end

local function read_head(log)
  if not log.head then
    local text = log.length > 0 and redis.call('LINDEX', log.key, 0) or ''
    log.head = {
      late = tonumber(string.match(text, '"late":(%d+)') or '0'),
      dropped = tonumber(string.match(text, '"dropped":(%d+)') or '0'),
      pairs = string.match(text, '"late_calls":%[(.*)%]}$') or '',
    }
  end
  return log.head
end

local function head_text(head)
  return '{"late":' .. int(head.late) .. ',"dropped":' .. int(head.dropped)
    .. ',"late_calls":[' .. head.pairs .. ']}'
end

local function write_line(log, line, head_changed)
  if log.length == 0 then
    write('RPUSH', log.key, head_text(read_head(log)), line)
    log.length = 2
  else
    if head_changed then
      write('LSET', log.key, '0', head_text(log.head))
    end
    if line then
      write('RPUSH', log.key, line)
      log.length = log.length + 1
    end
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
  if not log then
    return
  end
  if log.length <= LIMIT.structural_lines then
    return write_line(log, line)
  end
  local head = read_head(log)
  if log.length - 1 - head.late < LIMIT.structural_lines then
    return write_line(log, line)
  end
  head.dropped = head.dropped + 1
  write_line(log, nil, true)
end

-- A refused call that would have changed something, once for each token and verb.
local function note_late(id, event, token, verb, ...)
  local log = log_of(id)
  if not log then
    return
  end
  local head = read_head(log)
  local call = json_string(token .. ' ' .. verb)
  if string.find(head.pairs, call, 1, true) or head.late >= LIMIT.late_lines then
    return
  end
  head.late = head.late + 1
  head.pairs = head.pairs == '' and call or head.pairs .. ',' .. call
  write_line(log, evidence_line(event, 'verb', json_string(verb), 'token', json_string(token), ...), true)
end
