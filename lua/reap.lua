-- Recovers expired leases and promotes due tasks, at most `limit` of each. Any number may run at once.
--
-- KEYS[1]  meta
-- KEYS[2]  never
-- ARGV[1]  durable  1: make one replicated write in any case
-- ARGV[2]  limit    of each kind
-- Returns  ok more next_due_ms now fence promoted count width=6 (id cause status generation owner side_effect)...
-- Uses     recovery

local durable = ARGV[1]
local limit = tonumber(ARGV[2])

local promoted = promote_due(limit)
local recovered, looked_at = recover_expired(limit)
commit()
local more = promoted == limit or looked_at == limit
local reply = {
  'ok', more and '1' or '0', next_due(), now_text, int(fence), int(promoted), int(#recovered / RECOVERED_WIDTH),
  int(RECOVERED_WIDTH),
}
for _, value in ipairs(recovered) do
  reply[#reply + 1] = value
end
return finish(reply, durable)
