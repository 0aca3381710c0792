-- Uses     queue task evidence
-- Exports  still_holds expiry_cause guard
--
-- Who may act. This is the one definition of "this caller still holds this lease", and every verb of a worker asks it.

local WORKER_ENDINGS = { complete = true, fail = true, release = true }
local LATE_EVENTS = { complete = 'late_result', fail = 'late_result', release = 'late_result' }

-- `ended` keeps how the last lease ended: token, verb, and the answer that its holder was given.
local function last_ending(task)
  return string.match(task.fields.ended or '', '^(%d+) (%S+) ?(.*)$')
end

local function still_holds(task, owner, generation, token)
  local fields = task.fields
  return fields.status == 'leased' and fields.fencing_token == token and fields.claim_generation == generation
    and fields.lease_owner == owner and tonumber(fields.lease_expires_at or '0') >= now
end

local function expiry_cause(task)
  local fields = task.fields
  if fields.runtime_deadline and tonumber(fields.lease_expires_at or '0') >= tonumber(fields.runtime_deadline) then
    return 'max_runtime'
  end
  return 'expired'
end

-- Why a caller does not hold the lease, or `replay` with the answer that was given before.
local function why_lost(task, owner, generation, token, verb)
  local fields = task.fields
  if (tonumber(token) or LIMIT.integer) > fence then
    return 'not_issued'
  end
  local mine = fields.fencing_token == token
  if mine and (fields.lease_owner ~= owner or fields.claim_generation ~= generation) then
    return 'not_owner'
  end
  local ended_token, ended_verb, answer = last_ending(task)
  local names_me = ended_token == token
  if names_me and WORKER_ENDINGS[ended_verb] then
    if ended_verb == verb then
      return 'replay', answer
    end
    return 'settled'
  end
  local leased = fields.status == 'leased'
  if leased and not mine then
    return 'reclaimed'
  elseif names_me then
    return ended_verb
  elseif leased then
    return expiry_cause(task)
  end
  return 'superseded'
end

-- The answer to a caller that does not hold the lease.
local function lost(reason, fields)
  return 'lost ' .. reason .. ' ' .. (fields.status or '') .. ' ' .. (fields.claim_generation or '0')
end

-- Answers the task when the caller holds its lease. Otherwise nil and what to reply, in one text: the answer of a
-- replay, or the reason with the task's state now. A refusal changes nothing but the evidence.
local function guard(id, owner, generation, token, verb)
  local task, problem = read_task(id)
  if not task then
    return nil, 'lost ' .. problem .. '  '
  end
  if still_holds(task, owner, generation, token) then
    return task
  end
  local reason, answer = why_lost(task, owner, generation, token, verb)
  if reason == 'replay' then
    return nil, 'ok ' .. answer .. ' replay'
  end
  if verb ~= 'outcome' then
    note_late(id, LATE_EVENTS[verb] or 'refused', token, verb, 'reason', json_string(reason), 'owner',
      json_string(owner), 'generation', json_string(generation))
  end
  return nil, lost(reason, task.fields)
end
