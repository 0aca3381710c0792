-- Completes leases, and claims the next batch in the same call when a limit is given.
--
-- KEYS[1]     meta
-- KEYS[2]     never
-- ARGV[1]     durable         1: the reply will wait for replicas
-- ARGV[2]     owner           who claims the next batch
-- ARGV[3]     lane            ready or approved
-- ARGV[4]     limit           how many to claim; 0: none
-- ARGV[5]     request_number  of that claim
-- ARGV[6]     started         of that claim
-- ARGV[7...]  id owner generation token result result_ref
-- Returns     ok now answer...: `ok STATUS OPEN_EFFECTS`, `ok STATUS OPEN_EFFECTS replay` or
--             `lost REASON STATUS GENERATION`; then what claim returns, if a limit was given
-- Uses        acquire

local durable = ARGV[1]
local owner = ARGV[2]
local lane = ARGV[3]
local limit = tonumber(ARGV[4])
local request_number = ARGV[5]
local started = ARGV[6]
local WIDTH = 6

local COMPLETED = { verb = 'complete', cause = 'completed' }

local function complete(task, result, result_ref)
  if result ~= '' then
    put_value('results', task.id, result)
  end
  if result_ref ~= '' then
    put(task, 'result_ref', result_ref)
  end
  return settle(task, COMPLETED)
end

local reply = { 'ok', now_text }
for first = 7, #ARGV, WIDTH do
  read_to_complete(ARGV[first])
  local task, answer = guard(ARGV[first], ARGV[first + 1], ARGV[first + 2], ARGV[first + 3], 'complete')
  if task then
    answer = complete(task, ARGV[first + 4], ARGV[first + 5])
  end
  reply[#reply + 1] = answer
end
commit()
if limit > 0 then
  acquire(reply, owner, lane, limit, request_number, started)
end
return finish(reply, durable)
