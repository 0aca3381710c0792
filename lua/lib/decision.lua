-- Uses     task evidence
-- Exports  conflict decide forgive
--
-- What an operator decides. A decision carries a nonce: the same nonce gets the same answer, and whoever comes later is
-- told who decided what and when.

-- The answer of this very decision, if it was made before.
local function decided_before(task, nonce)
  local old_nonce, _, _, to, token = string.match(task.fields.decided or '', '^(%S+) (%S+) (%d+) (%S+) (%d+)$')
  if old_nonce == nonce then
    return { 'ok', to, token }
  end
end

local function conflict(task, reason)
  local _, verb, at = string.match(task.fields.decided or '', '^(%S+) (%S+) (%d+)')
  return { 'conflict', reason, task.fields.status or '', task.fields.fencing_token or '',
    task.fields.decided_by or '', verb or '', at or '' }
end

-- operator: verb, nonce, by, reason. Answers what a repetition will be answered.
local function record_decision(task, operator, from)
  local to, token = task.fields.status, int(fence)
  put(task, 'decided', table.concat({ operator.nonce, operator.verb, now_text, to, token }, ' '))
  put(task, 'decided_by', operator.by)
  local who = { 'by', json_string(operator.by), 'reason', json_string(operator.reason), 'from', json_string(from),
    'to', json_string(to), 'fence', json_string(token) }
  note(task.id, evidence_line(operator.verb, unpack(who)))
  expect('list', 'audit')
  write('RPUSH', prefix .. 'audit', evidence_line(operator.verb, 'id', json_string(task.id), unpack(who)))
  return { 'ok', to, token }
end

-- One decision about one task: repeated it gets the same answer, and what is refused changes nothing. `refusal` answers
-- why it may not be made now, if it may not; `carry_out` plans it.
local function decide(id, operator, refusal, carry_out)
  local task = read_task(id)
  if not task then
    return { 'unknown' }
  end
  local answer = decided_before(task, operator.nonce) or refusal(task)
  if answer then
    return answer
  end
  local from = task.fields.status
  carry_out(task, from)
  return record_decision(task, operator, from)
end

-- A person looked at the task: its history no longer counts against it.
local function forgive(task)
  for _, field in ipairs({ 'failures', 'expirations', 'same_errors', 'error_fingerprint' }) do
    drop(task, field)
  end
end
