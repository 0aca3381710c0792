-- Compares a stretch of one index with the hashes of its tasks. Writes nothing.
--
-- KEYS[1]  meta
-- KEYS[2]  never
-- ARGV[1]  index   a state, or unsettled or orphans
-- ARGV[2]  offset  rank of the first id
-- ARGV[3]  limit   how many ids at most
-- Returns  ok looked_at total (id problem)...
-- Uses     moves

local index = ARGV[1]
local offset = tonumber(ARGV[2])
local limit = tonumber(ARGV[3])

local ids = redis.call('ZRANGE', prefix .. index, offset, offset + limit - 1, 'WITHSCORES')
local reply = { 'ok', int(#ids / 2), int(redis.call('ZCARD', prefix .. index)) }

local function report(id, problem)
  reply[#reply + 1] = id
  reply[#reply + 1] = problem
end

local function check_state(id, task, score)
  local fields = task.fields
  if fields.status ~= index then
    return report(id, 'is in ' .. index .. ' but its hash says ' .. (fields.status or 'nothing'))
  end
  for state in pairs(STATES) do
    if state ~= index and redis.call('ZSCORE', prefix .. state, id) then
      report(id, 'is in ' .. index .. ' and in ' .. state)
    end
  end
  if index == 'leased' and int(score) ~= fields.lease_expires_at then
    report(id, 'expires at ' .. (fields.lease_expires_at or 'no time') .. ' by its hash and at ' .. int(score) .. ' by its index')
  elseif index ~= 'leased' and (fields.lease_expires_at or fields.runtime_deadline) then
    report(id, 'is ' .. index .. ' and still has an expiry')
  end
  local in_doubt = TERMINAL[index] and number_of(task, 'open_effects') > 0 or false
  if in_doubt ~= (redis.call('ZSCORE', prefix .. 'unsettled', id) ~= false) then
    report(id, 'and unsettled disagree about open effects')
  elseif TERMINAL[index] and in_doubt ~= (score == NEVER_SWEPT) then
    report(id, 'has a score that does not fit its open effects')
  end
end

for position = 1, #ids, 2 do
  local id, score = ids[position], tonumber(ids[position + 1])
  local task, problem = read_task(id)
  if not task then
    report(id, problem == 'broken' and 'has a key of the wrong type' or 'has no hash')
  elseif index == 'orphans' then
    report(id, 'is an orphan')
  elseif index == 'unsettled' then
    if not TERMINAL[task.fields.status] or number_of(task, 'open_effects') == 0 then
      report(id, 'is unsettled without an open effect')
    end
  else
    check_state(id, task, score)
  end
end
return reply
