"""Faults put into a copy of the scripts on purpose: each must be found, or the explorer does not bite."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from redislease.scripts import lua_directory

from .scopes import EFFECTS, FAULTS, HOLDING, OPERATING, RESTARTS
from .view import Scope


@dataclass(frozen=True, slots=True)
class Mutation:
    """One fault.

    Attributes:
        name: What is wrong.
        file: Where, in `lua/`.
        old: The text that is replaced; it occurs once.
        new: What replaces it.
        scope: The world in which it shows.
    """

    name: str
    file: str
    old: str
    new: str
    scope: Scope

    def copy_to(self, directory: Path) -> Path:
        """Copies the scripts with this fault into a directory that does not exist yet."""
        shutil.copytree(lua_directory(), directory)
        path = directory / self.file
        text = path.read_text(encoding="utf-8")
        assert text.count(self.old) == 1, f"{self.file} no longer holds {self.old!r} exactly once"
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")
        return directory


MUTATIONS = (
    Mutation("owner clause dropped", "lib/guard.lua", "and fields.lease_owner == owner and", "and", HOLDING),
    Mutation(
        "generation clause dropped", "lib/guard.lua", " and fields.claim_generation == generation\n", "\n", HOLDING,
    ),
    Mutation(
        "token clause dropped", "lib/guard.lua", "fields.status == 'leased' and fields.fencing_token == token",
        "fields.status == 'leased'", HOLDING,
    ),
    Mutation(
        "expiry clause dropped", "lib/guard.lua",
        " and tonumber(fields.lease_expires_at or '0') >= now\nend", "\nend", HOLDING,
    ),
    Mutation(
        "ZREM leased skipped", "lib/moves.lua", "  leave(task.fields.status, task.id)\n",
        "  if task.fields.status ~= 'leased' then leave(task.fields.status, task.id) end\n", HOLDING,
    ),
    Mutation(
        "pop before reads", "lib/acquire.lua", "redis.call('ZRANGE', prefix .. lane, 0, limit, 'WITHSCORES')",
        "redis.call('ZPOPMIN', prefix .. lane, limit)", FAULTS,
    ),
    Mutation("fence by counting alone", "lib/queue.lua", "math.max(fence + 1, now_us)", "fence + 1", RESTARTS),
    Mutation("fence by the clock alone", "lib/queue.lua", "math.max(fence + 1, now_us)", "now_us", HOLDING),
    Mutation(
        "reap without a look at the expiry in the hash", "lib/recovery.lua",
        "    elseif tonumber(task.fields.lease_expires_at or '0') >= now then\n"
        "      enter('leased', tonumber(task.fields.lease_expires_at), id)\n", "", FAULTS,
    ),
    Mutation(
        "reap without a look at the status in the hash", "lib/recovery.lua",
        "if not task or task.fields.status ~= 'leased' then", "if not task then", FAULTS,
    ),
    Mutation(
        "a late result writes the hash", "lib/guard.lua", "  note_late(id, LATE_EVENTS",
        "  put(task, 'late', verb)\n  note_late(id, LATE_EVENTS", HOLDING,
    ),
    Mutation(
        "renew lowers an expiry", "renew.lua", "math.max(current, now + length)",
        "now + length", HOLDING,
    ),
    Mutation(
        "an expiry draws a new sequence", "lib/recovery.lua", "cause = cause, last_error",
        "cause = cause, fresh_sequence = true, last_error", HOLDING,
    ),
    Mutation("cancel does not raise the fence", "cancel.lua", "    raise_fence()\n", "", OPERATING),
    Mutation("taking a lease does not raise the fence", "lib/ending.lua", "  raise_fence()\n", "", OPERATING),
    Mutation(
        "replay matched on generation", "lib/guard.lua", "local names_me = ended_token == token",
        "local names_me = ended_token and fields.claim_generation == generation", HOLDING,
    ),
    Mutation(
        "purge forgets unsettled", "purge.lua", "elseif number_of(task, 'open_effects') > 0 then",
        "elseif false then", FAULTS,
    ),
    Mutation("claim ignores paused", "lib/acquire.lua", "if pause ~= '' then", "if false then", OPERATING),
    Mutation(
        "what may have happened is repeated", "lib/policy.lua", "  'in_doubt', 'reconciling',\n", "", HOLDING,
    ),
    Mutation(
        "expirations are not limited", "lib/policy.lua", "  'too_many_expirations', 'dead',\n", "",
        replace(HOLDING, actions=("claim", "reap", "clock")),
    ),
    Mutation("failures count as releases", "lib/policy.lua", "failed = 'failures'", "failed = 'releases'", HOLDING),
    Mutation("renew beyond max_runtime", "renew.lua", "if cap and expires >= cap then", "if false then", HOLDING),
    Mutation(
        "renew shortens after the clock stepped back", "renew.lua", "math.max(length, current - renewed)", "length",
        HOLDING,
    ),
    Mutation(
        "a claim is not recorded", "lib/acquire.lua", "  record_claim(worker, request_number, token, ids, amount)\n",
        "", HOLDING,
    ),
    Mutation(
        "an answer is forgotten by the next claim", "lib/acquire.lua", "  leave(fields.status, task.id)\n",
        "  leave(fields.status, task.id)\n  drop(task, 'ended')\n", HOLDING,
    ),
    Mutation("tasks in doubt are not listed", "lib/moves.lua", "    enter('unsettled', now, task.id)\n", "", OPERATING),
    Mutation("a decision is taken twice", "lib/decision.lua", "if old_nonce == nonce then", "if false then", OPERATING),
    Mutation(
        "a late requeue takes effect", "requeue.lua", "(task.fields.fencing_token or '') ~= token", "false", OPERATING,
    ),
    Mutation("a late revoke takes effect", "revoke.lua", "task.fields.fencing_token ~= token", "false", OPERATING),
    Mutation("a late pause takes effect", "pause.lua", "seen_epoch ~= epoch", "false", OPERATING),
    Mutation(
        "a cancelled task is cancelled again", "cancel.lua", "if TERMINAL[task.fields.status] then", "if false then",
        OPERATING,
    ),
    Mutation(
        "retention without a floor", "purge.lua", "math.max(tonumber(retention), LIMIT.retention_floor_ms)",
        "tonumber(retention)", OPERATING,
    ),
    Mutation("purge leaves the payload", "purge.lua", "  drop_value('payloads', id)\n", "", OPERATING),
    Mutation(
        "promotion a moment early", "lib/recovery.lua", "'scheduled', '-inf', now_text",
        "'scheduled', '-inf', int(now + 1)", OPERATING,
    ),
    Mutation("nobody is woken", "lib/moves.lua", "  if BELLS[to] then\n    ring(to)\n  elseif", "  if", HOLDING),
    Mutation(
        "an effect that was done is done again", "intent.lua", "elseif record.state == 'done' then",
        "elseif false then", EFFECTS,
    ),
    Mutation("another request under the same key", "intent.lua", "record.digest ~= call.digest", "false", EFFECTS),
    Mutation("an intent in a pause", "intent.lua", "pause == 'effects'", "false", EFFECTS),
    Mutation(
        "an intent sent twice is another one", "intent.lua", "if granted_before(record, call) then", "if false then",
        EFFECTS,
    ),
    Mutation(
        "a try that was given up closes an earlier one", "outcome.lua",
        "if verdict == 'not_done' and record.left_open_by ~= '0' then", "if false then", EFFECTS,
    ),
    Mutation("a try that was given up is begun again", "intent.lua", " or is_spent(record, call.nonce)", "", EFFECTS),
    Mutation("an intent is not counted", "lib/effects.lua", "    increase(task, 'open_effects')\n", "", EFFECTS),
    Mutation("an outcome is not counted", "lib/effects.lua", "  close_one(task)\n", "", EFFECTS),
    Mutation(
        "testimony closes an effect", "outcome.lua", "    testify(known, key, record, mine, token, verdict, outcome)",
        "    close_effect(known, key, record, verdict, outcome)", EFFECTS,
    ),
    Mutation(
        "a wrong reason", "lib/guard.lua", "  elseif names_me then\n    return ended_verb",
        "  elseif names_me then\n    return 'superseded'", HOLDING,
    ),
    Mutation(
        "an empty claim is not recorded", "lib/acquire.lua", "raise_fence(amount) or 0\n  if limit > 0 then\n",
        "raise_fence(amount) or 0\n  if amount > 0 then\n", HOLDING,
    ),
    Mutation(
        "a claim that met a pause is not recorded", "lib/acquire.lua",
        "    record_claim(worker, request_number, 0, {}, 0)\n", "", OPERATING,
    ),
    Mutation("what never began counts", "lib/policy.lua", "unstarted = ''", "unstarted = 'expirations'", EFFECTS),
    Mutation(
        "a start is not noted", "lib/handler.lua", "  drop(task, 'unstarted')\n  if has_implicit_effect",
        "  if has_implicit_effect", EFFECTS,
    ),
    Mutation(
        "a mark outlives its lease", "lib/ending.lua", "  drop(task, 'unstarted')\n  note_ending", "  note_ending",
        EFFECTS,
    ),
    Mutation("a stray id is handed out", "lib/acquire.lua", "task.fields.status ~= lane", "false", FAULTS),
)  # fmt: skip
"""The ones that the explorer was asked to find, and a few more."""
