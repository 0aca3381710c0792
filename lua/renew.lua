-- Extends leases that are still held. A renewal never shortens a lease and never takes one back.
--
-- KEYS[1]     meta
-- KEYS[2]     never
-- ARGV[1]     durable  1: make one replicated write in any case
-- ARGV[2...]  id owner generation token lease_ms
-- Returns     ok now answer...: `ok|capped EXPIRES_AT REMAINING_MS` or `lost REASON STATUS GENERATION`
-- Uses        guard workers

local durable = ARGV[1]
local WIDTH = 5

-- When the holder's authority was last confirmed: by its claim, until the first renewal.
local function confirmed_at(task)
  return tonumber(task.fields.renewed_at or task.fields.claimed_at or '0')
end

local function extended(task, asked)
  local fields = task.fields
  local length = tonumber(asked) or number_of(task, 'lease_ms')
  local current = tonumber(fields.lease_expires_at)
  local renewed = confirmed_at(task)
  local expires = math.max(current, now + length)
  if now < renewed then
    -- The server's clock stepped back: what was left of the lease is what it had left before.
    expires = now + math.max(length, current - renewed)
  end
  local cap = tonumber(fields.runtime_deadline)
  if cap and expires >= cap then
    return cap, 'capped'
  end
  return expires, 'ok'
end

local function renew(task, asked)
  local expires, word = extended(task, asked)
  local gap = now - confirmed_at(task)
  if not task.fields.first_renewal_at then
    put(task, 'first_renewal_at', now_text)
  end
  if gap > number_of(task, 'longest_gap_ms') then
    put(task, 'longest_gap_ms', int(gap))
  end
  put(task, 'lease_expires_at', int(expires))
  put(task, 'renewed_at', now_text)
  increase(task, 'renewals')
  enter('leased', expires, task.id)
  return word .. ' ' .. int(expires) .. ' ' .. int(expires - now)
end

local reply = { 'ok', now_text }
local seen = {}
for first = 2, #ARGV, WIDTH do
  local owner = ARGV[first + 1]
  local task, answer = guard(ARGV[first], owner, ARGV[first + 2], ARGV[first + 3], 'renew')
  if task then
    answer = renew(task, ARGV[first + 4])
    if not seen[owner] then
      seen[owner] = true
      local worker = read_worker(owner, '0')
      if worker then
        mark_seen(worker)
      end
    end
  end
  reply[#reply + 1] = answer
end
commit()
return finish(reply, durable)
