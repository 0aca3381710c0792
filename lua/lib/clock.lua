-- The only place that reads the clock: the server's time in microseconds. Tests replace this file when they load a
-- script; nothing in production can.

local function read_clock()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end
