-- Uses     evidence
-- Exports  begin_life forget_old_lines
--
-- Evidence of an id that is used again: what earlier tasks have left stands before the lines of the present one, and the
-- head says how much that is.

-- A task takes an id of which evidence is left: it stays, and counts towards no budget any more.
local function begin_life(id)
  local key = key_of(id)
  local length = read_or_nil('LLEN', key) or 0
  local log = log_of(key)
  local head = length > 0 and read_head(log)
  if not head then
    return
  end
  head.before = length - (head.stored and 1 or 0)
  if head.dropped > 0 then
    log.late_lines = { evidence_line('not_kept', 'lines', int(head.dropped)) }
    head.before = head.before + 1
  end
  head.late, head.stale, head.dropped, head.fence, head.pairs = 0, 0, 0, fence, ''
  plan_log(log)
  write('PERSIST', key)
end

-- How many lines one call looks at, of all logs together.
local left_to_look = 5000

-- How many of the lines that earlier tasks have left are older than a time; counted up to a limit.
local function count_older(key, head, before)
  local last = math.min(head.before, LIMIT.structural_lines, left_to_look)
  left_to_look = left_to_look - last
  for first = 1, last, 50 do
    for offset, line in ipairs(redis.call('LRANGE', key, first, math.min(first + 49, last))) do
      if tonumber(string.match(line, '"at":(%d+)') or '0') >= before then
        return first + offset - 2
      end
    end
  end
  return last
end

-- Forgets what earlier tasks of an id have left, once it is older than a time; a bounded part of it in one call.
local function forget_old_lines(id, before)
  local log = log_of(key_of(id))
  local head = read_head(log)
  local old = head and head.before > 0 and count_older(log.key, head, before) or 0
  if old > 0 then
    head.before = head.before - old
    write('LTRIM', log.key, int(1 + old), '-1')
    write('LPUSH', log.key, head_text(head))
  end
end
