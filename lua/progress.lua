-- Stores how far a worker is. Progress is not a heartbeat: it does not extend the lease.
--
-- KEYS[1]     meta
-- KEYS[2]     never
-- ARGV[1]     durable  1: make one replicated write in any case
-- ARGV[2...]  id owner generation token number body
-- Returns     ok now answer...: `ok STATUS` or `lost REASON STATUS GENERATION`
-- Uses        guard

local durable = ARGV[1]
local WIDTH = 6

-- Reports are numbered, so that one that arrives late does not undo a later one.
local function is_newer(id, token, number)
  expect('hash', 'progress')
  local stored = redis.call('HGET', prefix .. 'progress', id)
  local old_token, old_number = string.match(stored or '', '^(%d+) (%d+) ')
  return old_token ~= token or tonumber(number) > tonumber(old_number)
end

local reply = { 'ok', now_text }
for first = 2, #ARGV, WIDTH do
  local id, token, number = ARGV[first], ARGV[first + 3], ARGV[first + 4]
  read_lease(id)
  local task, answer = guard(id, ARGV[first + 1], ARGV[first + 2], token, 'progress')
  if task then
    if is_newer(id, token, number) then
      put_value('progress', id, token .. ' ' .. number .. ' ' .. now_text .. ' ' .. ARGV[first + 5])
    end
    answer = 'ok ' .. task.fields.status
  end
  reply[#reply + 1] = answer
end
commit()
return finish(reply, durable)
