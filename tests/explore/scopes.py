"""The worlds that are explored."""

from __future__ import annotations

from dataclasses import replace

from .view import Scope, Step, TaskKind

LEASE_MS = 100

# Acts outside, may fail once, expires twice, ends in doubt.
ACTS = TaskKind(b"a", "non_idempotent", {"lease_ms": LEASE_MS, "max_attempts": 2, "idempotency_key": "k"})
# Can be repeated, starts later, and has a longest run time.
REPEATS = TaskKind(
    b"b",
    "idempotent",
    {"lease_ms": LEASE_MS, "delay_ms": 40, "max_runtime_ms": 150, "max_attempts": 2, "max_expirations": 2},
)

# Says what it does before it does it.
RECORDS = TaskKind(b"d", "non_idempotent", {"lease_ms": LEASE_MS, "records_effects": 1})

WORKER_ACTIONS = ("claim", "renew", "complete", "complete+claim", "fail", "release", "intent", "outcome", "mixed")
OPERATOR_ACTIONS = ("cancel", "revoke", "resolve", "requeue", "decide again", "pause")
SWEEPS = ("reap", "purge", "clock")

EMPTY: tuple[Step, ...] = ()
STORED: tuple[Step, ...] = (("enqueue", "a", 1, "{}"), ("enqueue", "b", 1, "{}"))
HELD: tuple[Step, ...] = (*STORED, ("claim", "w-1", 1, 1, 1))
LOST: tuple[Step, ...] = (*HELD, ("clock", 100), ("clock", 1))

FULL = Scope(
    "full",
    tasks=(ACTS, REPEATS),
    actions=("enqueue", *WORKER_ACTIONS, *OPERATOR_ACTIONS, *SWEEPS, "plant", "break", "lose"),
    limits={"back": 2, "decide": 3, "pause": 2, "plant": 1, "break": 1, "lose": 1},
    roots=(EMPTY, STORED, LOST),
    losses=1,  # every pair of lost calls would take most of the time; `restarts` looks at those
)

# Everything but broken keys and lost writes, which try each call many times over: more states a second.
BROAD = replace(
    FULL,
    name="broad",
    actions=tuple(action for action in FULL.actions if action not in ("plant", "break", "lose")),
)

HOLDING = replace(
    FULL,
    name="holding",
    actions=("claim", "renew", "complete", "fail", "release", "mixed", "reap", "clock"),
    limits={"back": 1},
    roots=(STORED, LOST),
)
OPERATING = replace(
    FULL,
    name="operating",
    actions=("enqueue", "claim", "complete", "fail", "reap", *OPERATOR_ACTIONS, "clock", "purge"),
    limits={"decide": 2, "pause": 1},
    roots=(STORED, HELD),
)
FAULTS = replace(
    FULL,
    name="faults",
    actions=("claim", "complete", "cancel", "reap", "purge", "clock", "plant", "break"),
    limits={"decide": 1, "plant": 1, "break": 1},
    roots=(STORED, HELD),
)
RESTARTS = replace(
    FULL,
    name="restarts",
    actions=("claim", "complete", "cancel", "reap", "clock", "lose"),
    limits={"back": 1, "decide": 1, "lose": 1},
    roots=(STORED, HELD),
    losses=2,
)

EFFECTS = replace(
    FULL,
    name="effects",
    tasks=(RECORDS, REPEATS),
    actions=("claim", "intent", "outcome", "complete", "fail", "release", "reap", "clock", "resolve", "pause"),
    limits={"decide": 2, "pause": 2},
    roots=(
        (("enqueue", "d", 1, "{}"), ("claim", "w-1", 1, 1, 1), ("intent", 0, "mail", "n1", "r1")),
        (("enqueue", "b", 1, "{}"), ("clock", 40), ("claim", "w-1", 1, 1, 1), ("intent", 0, "mail", "n1", "r1")),
    ),
)

SCOPES = {scope.name: scope for scope in (FULL, BROAD, HOLDING, OPERATING, FAULTS, RESTARTS, EFFECTS)}
