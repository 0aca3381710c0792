-- Uses     queue plan task bells
-- Exports  STATES TERMINAL arrive move put_right
--
-- A move takes a task from one state to another: status, index and bell together. Nothing else changes a status.

local STATES = {
  scheduled = true, ready = true, approved = true, leased = true, blocked = true, awaiting_approval = true,
  reconciling = true, dead = true, completed = true, cancelled = true,
}

local TERMINAL = { dead = true, completed = true, cancelled = true }

local earliest_due

-- A worker sleeps until the earliest due time that it was told; an earlier one must wake it.
local function ring_if_earliest(due)
  if not earliest_due then
    local first = redis.call('ZRANGE', prefix .. 'scheduled', 0, 0, 'WITHSCORES')
    earliest_due = tonumber(first[2] or LIMIT.integer)
  end
  if due < earliest_due then
    earliest_due = due
    ring('ready')
  end
end

-- The score with which a task stands in an index; `due` is for scheduled alone.
local function score_in(state, task, due)
  if state == 'ready' or state == 'approved' then
    if not task.fields.sequence then
      put(task, 'sequence', draw_sequence())
    end
    return rank(task.fields.priority, task.fields.sequence)
  elseif state == 'scheduled' then
    return due
  elseif state == 'leased' then
    return tonumber(task.fields.lease_expires_at or '0')
  elseif TERMINAL[state] and number_of(task, 'open_effects') > 0 then
    return NEVER_SWEPT
  end
  return now
end

local function arrive(task, to, due)
  put(task, 'status', to)
  local score = score_in(to, task, due)
  enter(to, score, task.id)
  if BELLS[to] then
    ring(to)
  elseif to == 'scheduled' then
    ring_if_earliest(due)
  end
  if TERMINAL[to] and number_of(task, 'open_effects') > 0 then
    enter('unsettled', now, task.id)
  end
end

local function move(task, to, due)
  leave(task.fields.status, task.id)
  if TERMINAL[task.fields.status] and not TERMINAL[to] then
    leave('unsettled', task.id)
  end
  arrive(task, to, due)
end

-- An id in an index that its hash does not name goes where the hash says; one without a usable hash goes to `orphans`,
-- where `check` and the operator find it. It is never handed out and never blocks what stands behind it.
local function put_right(id, task, index)
  leave(index, id)
  count('misplaced')
  if not task or not STATES[task.fields.status] then
    enter('orphans', now, id)
    return
  end
  local home = task.fields.status
  if not redis.call('ZSCORE', prefix .. home, id) then
    fill(home, score_in(home, task, now), id)
  end
end
