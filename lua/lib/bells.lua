-- Uses     queue plan
-- Exports  BELLS ring signal
--
-- Bells wake sleeping workers. They carry no task: a lost ring costs a few seconds, never work. Each is a sorted set of
-- one member, so that ringing twice is one ring.

local BELLS = { ready = 'wake', approved = 'wake:approved' }

local function ring(lane)
  local bell = BELLS[lane]
  if pause == '' and expect('zset', bell) == 0 then
    checked[bell] = 1
    write('ZADD', prefix .. bell, '0', 'wake')
  end
end

-- Tells an owner to renew at once and learn what it lost.
local function signal(owner)
  local bell = 'signal:' .. owner
  if expect('zset', bell) == 0 then
    checked[bell] = 1
    write('ZADD', prefix .. bell, '0', 'signal')
    write('PEXPIRE', prefix .. bell, LIMIT.signal_ms)
  end
end
