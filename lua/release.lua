-- Gives leases back without a verdict on the attempt.
--
-- KEYS[1]     meta
-- KEYS[2]     never
-- ARGV[1]     durable  1: the reply will wait for replicas
-- ARGV[2...]  id owner generation token cause handler delay_ms fresh_sequence
-- Returns     ok now answer...: `ok STATUS DUE|OPEN_EFFECTS`, `ok STATUS DUE|OPEN_EFFECTS replay` or
--             `lost REASON STATUS GENERATION`
-- Uses        guard ending

local durable = ARGV[1]
local WIDTH = 8

local reply = { 'ok', now_text }
for first = 2, #ARGV, WIDTH do
  local task, answer = guard(ARGV[first], ARGV[first + 1], ARGV[first + 2], ARGV[first + 3], 'release')
  if task then
    answer = settle(task, {
      verb = 'release',
      cause = ARGV[first + 4],
      handler = ARGV[first + 5],
      delay_ms = tonumber(ARGV[first + 6]),
      fresh_sequence = ARGV[first + 7] == '1',
    })
  end
  reply[#reply + 1] = answer
end
commit()
return finish(reply, durable)
