-- Pauses the queue, or resumes it. The caller names the epoch it saw, so that a late call does not undo a newer one.
--
-- KEYS[1]  meta
-- KEYS[2]  never
-- ARGV[1]  durable  1: the reply will wait for replicas
-- ARGV[2]  level    claims or effects; '' resumes
-- ARGV[3]  epoch    as the caller saw it
-- ARGV[4]  nonce    of this decision
-- ARGV[5]  by       who decides
-- ARGV[6]  reason   why
-- Returns  ok level epoch
-- Returns  exhausted what
-- Returns  conflict epoch level epoch decided_by decided decided_at
-- Uses     bells json evidence

local durable = ARGV[1]
local level = ARGV[2]
local seen_epoch = ARGV[3]
local nonce = ARGV[4]
local by = ARGV[5]
local reason = ARGV[6]

local verb = level == '' and 'resume' or 'pause'

local function decide()
  local last = redis.call('HMGET', KEYS[1], 'pause_nonce', 'paused_by', 'paused_verb', 'paused_at', 'paused_epoch')
  if last[1] == nonce then
    return { 'ok', level, last[5] or '0' }
  elseif seen_epoch ~= epoch then
    return { 'conflict', 'epoch', pause, epoch, last[2] or '', last[3] or '', last[4] or '' }
  end
  if tonumber(epoch) >= LIMIT.integer then
    return { 'exhausted', 'epoch' }
  end
  local next_epoch = int(tonumber(epoch) + 1)
  write('HSET', KEYS[1], 'pause', level, 'epoch', next_epoch, 'pause_nonce', nonce, 'paused_by', by,
    'paused_reason', reason, 'paused_verb', verb, 'paused_at', now_text, 'paused_epoch', next_epoch)
  expect('list', 'audit')
  write('RPUSH', prefix .. 'audit', evidence_line(verb, 'level', json_string(level), 'by', json_string(by),
    'reason', json_string(reason), 'epoch', next_epoch))
  pause = level
  for lane in pairs(BELLS) do
    if level == '' and expect('zset', lane) > 0 then
      ring(lane)
    end
  end
  return { 'ok', level, next_epoch }
end

local reply = decide()
commit()
return finish(reply, durable)
