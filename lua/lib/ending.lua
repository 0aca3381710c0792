-- Uses     moves policy evidence handler
-- Exports  settle take_lease
--
-- How a lease ends, whatever ended it: count it, decide where the task goes, keep the answer for a replay, leave
-- evidence. Owner, generation and token stay in the hash until the next claim; the status and the expiry do not.

-- What a read-only task leaves no evidence of: only what went wrong is worth a line there.
local QUIET_CAUSES = { completed = true, returned = true, released = true }

-- Attempts that never began are none.
local NO_ATTEMPT = { returned = true, unstarted = true }

local function count_same_error(task, fingerprint)
  if fingerprint == '' then
    return
  end
  if task.fields.error_fingerprint == fingerprint then
    increase(task, 'same_errors')
  else
    put(task, 'error_fingerprint', fingerprint)
    put(task, 'same_errors', '1')
  end
end

local function note_ending(task, ending, to, rule)
  local fields = task.fields
  if fields.side_effect == 'read_only' and QUIET_CAUSES[ending.cause] then
    return
  end
  -- Written once for every lease there is, so it is joined in one go; the words in it are the protocol's own.
  local line = '{"event":"' .. ending.cause .. '","at":' .. now_text .. ',"to":"' .. to .. '","rule":"' .. rule
    .. '","generation":' .. (fields.claim_generation or '0') .. ',"token":"' .. (fields.fencing_token or '')
    .. '","owner":' .. json_string(fields.lease_owner or '') .. ',"claimed_at":' .. (fields.claimed_at or '0')
  if fields.renewals then
    line = line .. ',"renewals":' .. fields.renewals .. ',"first_renewal_at":' .. (fields.first_renewal_at or '0')
      .. ',"last_renewal_at":' .. (fields.renewed_at or '0') .. ',"longest_gap_ms":' .. (fields.longest_gap_ms or '0')
  end
  if ending.error then
    line = line .. ',"error":' .. json_string(ending.error)
  end
  if fields.open_effects then
    line = line .. ',"open_effects":' .. fields.open_effects
  end
  note(task.id, line .. '}')
end

-- ending: verb and cause; delay_ms, error, fingerprint, fresh_sequence, handler ('open' leaves it open).
-- Answers the new status and one detail: when a scheduled task is due, how many effects of any other are open.
local function end_lease(task, ending)
  local counter = CAUSES[ending.cause]
  if counter ~= '' then
    increase(task, counter)
  end
  if NO_ATTEMPT[ending.cause] then
    increase(task, 'attempts', -1)
  end
  if ending.cause == 'failed' then
    count_same_error(task, ending.fingerprint or '')
  end
  if ending.handler ~= 'open' then
    close_handler(task)
  end
  if ending.last_error then
    put(task, 'last_error', ending.last_error)
  end
  if ending.fresh_sequence then
    drop(task, 'sequence')
  end
  local to, rule = destination(task, ending)
  local due = to == 'scheduled' and now + (ending.delay_ms or 0) or nil
  local detail = due and int(due) or task.fields.open_effects or '0'
  put(task, 'ended', (task.fields.fencing_token or '0') .. ' ' .. ending.verb .. ' ' .. to .. ' ' .. detail)
  move(task, to, due)
  drop(task, 'lease_expires_at')
  drop(task, 'runtime_deadline')
  drop(task, 'unstarted')
  note_ending(task, ending, to, rule)
  count(ending.cause)
  return to, detail
end

-- An ending that the holder chose, and what it is answered.
local function settle(task, ending)
  local status, detail = end_lease(task, ending)
  return 'ok ' .. status .. ' ' .. detail
end

-- An ending that the holder did not choose: the fence rises over its token, and it is told to look.
local function take_lease(task, ending)
  raise_fence()
  if task.fields.lease_owner then
    signal(task.fields.lease_owner)
  end
  ending.handler = 'open'
  return end_lease(task, ending)
end
