"""What must be true of every state: the keys among themselves, and with what the callers know."""

from __future__ import annotations

from collections.abc import Iterator

from .ghost import HANDLER
from .model import NEVER_SWEPT, TERMINAL, number
from .texts import (
    BASE,
    EFFECTS,
    INDEXES,
    KINDS,
    META,
    ORPHANS,
    STRAY,
    TASK,
    UNSETTLED,
    Fields,
    effect_record,
    expiry,
    fields,
    items,
    kind_of,
    scores,
)
from .view import View

SEQUENCES = 1 << 44
PER_TASK = ("payloads", "results", "progress")


def problems(view: View) -> Iterator[str]:
    """Everything that is wrong with a state."""
    yield from _keys(view)
    yield from _indexes(view)
    for kind in view.scope.tasks:
        task = view.task(kind.id)
        if task is not None:
            yield from _task(view, kind.id, task)
        else:
            yield from _gone(view, kind.id)
    yield from _queue(view)


def _keys(view: View) -> Iterator[str]:
    """Every key is of a known kind, and belongs to something."""
    for key, text in view.texts.items():
        name, _, owner = key.removeprefix(BASE).decode().partition(":")
        if key == TASK + STRAY:
            continue  # planted, and nobody takes it away
        if kind_of(text) != KINDS.get(name):
            yield f"{name} is a {kind_of(text)}"
            continue
        there = TASK + owner.encode() in view.texts
        if expiry(text) is not None and (name != "evidence" or there):
            yield f"{name}:{owner} expires"
        if name == "evidence" and not there and expiry(text) is None:
            yield f"evidence:{owner} has no task and does not expire"
        if name == "effects" and not there:
            yield f"effects:{owner} has no task"
        if name == "idempotency":
            holder = items(text)[0].split(b" ")[0]
            if (view.task(holder) or {}).get(b"idempotency_key") != owner.encode():
                yield f"idempotency:{owner} names {holder.decode()}"
        if name in PER_TASK:
            for task in fields(text):
                if TASK + task not in view.texts:
                    yield f"{name} holds {task.decode()}, which has no task"


def _indexes(view: View) -> Iterator[str]:
    """A task is in exactly one index, the one that its hash names."""
    faults = set(view.ghost.faults)
    for status in INDEXES:
        for task in view.index(status):
            fields_ = view.task(task)
            if (fields_ is None or fields_[b"status"] != status) and (status, task) not in faults:
                yield f"{status.decode()} holds {task.decode()}, whose hash does not say so"
    if ORPHANS in view.texts and not view.spent("plant"):
        yield f"{sorted(scores(view.texts[ORPHANS]))} are orphans, and nobody planted one"


def _gone(view: View, task: bytes) -> Iterator[str]:
    """Nothing is left of a task but evidence."""
    unsettled = view.texts.get(UNSETTLED)
    if unsettled and task in scores(unsettled):
        yield f"unsettled holds {task.decode()}, which has no task"
    if view.ghost.live(task):
        yield f"{task.decode()} has a holder and no hash"


def _task(view: View, task: bytes, now: Fields) -> Iterator[str]:
    name = task.decode()
    status = now[b"status"]
    score = view.index(status).get(task)
    if score is None:
        yield f"G4: {name} is {status.decode()} and not in that index"
        return
    open_effects = number(now, b"open_effects")
    if open_effects != len(view.ghost.open_of(task)):
        yield f"{name} counts {open_effects} open effects, and {view.ghost.open_of(task)} are"
    if (status, task) not in view.ghost.faults:
        yield from _score(name, now, status, score, open_effects)
    yield from _effects(view, task, now)
    unsettled = view.texts.get(UNSETTLED)
    in_doubt = status in TERMINAL and open_effects > 0
    if in_doubt != bool(unsettled and task in scores(unsettled)):
        yield f"{name} is {status.decode()} with {open_effects} open effects, and unsettled disagrees"
    if status == b"reconciling" and not open_effects:
        yield f"{name} is reconciling without an open effect"
    yield from _lease(view, task, now)


def _effects(view: View, task: bytes, now: Fields) -> Iterator[str]:
    """What is recorded of effects is what their callers were told."""
    told = {one.key: one for one in view.ghost.effects if one.task == task}
    if (HANDLER in told) != (b"handler_open" in now):
        yield f"{task.decode()} has the implicit effect open, or not, unlike its holder knows"
    stored = {key: effect_record(text) for key, text in view.hash(EFFECTS + task).items()}
    if stored.keys() != told.keys() - {HANDLER} or len(stored) != number(now, b"effects"):
        yield f"{task.decode()} has recorded {sorted(stored)}, and its callers {sorted(told)}"
        return
    for key, record in stored.items():
        known = told[key]
        there = record.told()
        if there != known[2:]:
            yield f"the effect {key.decode()} of {task.decode()} is {there}, and its callers know {known[2:]}"


def _score(name: str, now: Fields, status: bytes, score: int, open_effects: int) -> Iterator[str]:
    if status == b"leased":
        if score != int(now[b"lease_expires_at"]):
            yield f"{name} expires at one time by its hash and at another by its index"
    elif status == b"ready":
        if b"sequence" in now and score % SEQUENCES != int(now[b"sequence"]):
            yield f"{name} has one sequence in its hash and another in its score"
        if score // SEQUENCES != 100 - number(now, b"priority"):
            yield f"{name} stands in line with another priority"
    elif status in TERMINAL and (score == NEVER_SWEPT) != (open_effects > 0):
        yield f"{name} has a score that does not fit its open effects"


def _lease(view: View, task: bytes, now: Fields) -> Iterator[str]:
    """The hash names the lease that somebody was given last, while it lives."""
    name = task.decode()
    lease = view.ghost.live(task)
    if now[b"status"] != b"leased":
        if lease is not None:
            yield f"{name} is {now[b'status'].decode()}, and the lease of its holder was not ended"
        if b"unstarted" in now:
            yield f"{name} is {now[b'status'].decode()} and still waits for its handler's start"
        if b"lease_expires_at" in now or b"runtime_deadline" in now:
            yield f"{name} is {now[b'status'].decode()} and still expires"
        return
    if lease is None:
        yield f"{name} is leased, and nobody holds it"
        return
    if (b"unstarted" in now) != lease.unstarted:
        yield f"{name} waits for its handler's start, or not, unlike its holder knows"
    told = (lease.owner, b"%d" % lease.generation, b"%d" % lease.token, b"%d" % lease.expires)
    names = (b"lease_owner", b"claim_generation", b"fencing_token", b"lease_expires_at")
    stored = tuple(now.get(one) for one in names)
    if stored != told:
        yield f"{name} is leased as {stored}, and its holder knows {told}"


def _queue(view: View) -> Iterator[str]:
    meta = view.hash(META)
    fence = number(meta, b"fence")
    for kind in view.scope.tasks:
        if number(view.task(kind.id) or {}, b"fencing_token") > fence:
            yield f"G3: the fence stands below the token of {kind.id.decode()}"
    if meta.get(b"pause", b"") != view.ghost.pause or number(meta, b"epoch") != view.ghost.epoch:
        yield "G6: the queue is not paused as it was decided"
