"""`why`: one paragraph about a task, from what the server holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from redislease.cli import output, tables
from redislease.cli.facts import Facts, gather
from redislease.cli.output import counted
from redislease.cli.session import Session
from redislease.effect_records import HANDLER, receiver_key
from redislease.models import SideEffect, Status


@dataclass(frozen=True, slots=True)
class Explanation:
    """What `why` answers.

    Attributes:
        id: The task.
        status: Its state.
        since: When it came into it, in milliseconds of the server's clock.
        text: The paragraph.
        next: What to type, each command with what it is for.
    """

    id: str
    status: str
    since: int | None
    text: str
    next: list[dict[str, str]] = field(default_factory=list)


Told = tuple[list[str], list[tuple[str, str]]]
"""Sentences, and commands each with its purpose."""


def _last_lease(facts: Facts) -> str:
    if facts.task.lease_owner is None:
        return "Nobody has held it yet."
    why = f"; {facts.task.last_error}" if facts.task.last_error else ""
    return f"It was last held by {facts.holder}{why}."


def _unstarted(facts: Facts) -> str:
    """A worker that cannot handle a task gives it back and tells only its own log; the server keeps the count."""
    said = []
    if facts.never_begun:
        times = counted(facts.never_begun, "time")
        said.append(f"Its lease expired {times} before its handler had begun, which does not count.")
    if facts.given_back:
        said.append(
            f"It was given back {counted(facts.given_back, 'time')} before anything was begun: so does a worker that "
            f"has no handler named {facts.task.name} or does not know a parameter of the payload, and one that is told "
            "to end; its log says which."
        )
    return " ".join(said)


def _decided(facts: Facts, what: str) -> str:
    """Who brought the task into its state; '' if that was no decision."""
    if facts.decision is None:
        return ""
    reason = f": {facts.decision.reason}" if facts.decision.reason else ""
    return f"{facts.decision.by} {what} at {facts.when(facts.decision.at)}{reason}."


def _pause(facts: Facts) -> tuple[list[str], list[tuple[str, str]]]:
    stats = facts.stats
    if not stats.pause:
        return [], []
    reason = f" ({stats.paused_reason})" if stats.paused_reason else ""
    said = f"The queue is paused by {stats.paused_by}{reason} since {facts.when(stats.paused_at)}: nothing is claimed."
    return [said], [(facts.command("resume"), "end the pause")]


def _begun(facts: Facts) -> str:
    """What was begun outside and has no outcome yet; '' if that is nothing."""
    names = ", ".join(f"{effect.key} (generation {effect.generation})" for effect in facts.in_doubt)
    return f"Begun, and without an outcome: {names}." if names else ""


def _scheduled(facts: Facts) -> Told:
    task = facts.task
    failed = f"It failed {task.failures} of {task.max_attempts} times. " if task.failures else ""
    overdue = task.available_at is not None and task.available_at <= facts.stats.now
    mover = "The next claim or reap makes it ready." if overdue else "It then becomes ready by itself."
    paused, resume = _pause(facts)
    next_step = [(facts.command("reap"), "make it ready")] if overdue else []
    return (
        [
            f"It waits until {facts.when(task.available_at)}. {mover}",
            failed + _last_lease(facts),
            _begun(facts),
            _unstarted(facts),
            *paused,
        ],
        [*resume, *next_step, (facts.command("cancel", task.id), "stop it for good")],
    )


def _ready(facts: Facts) -> Told:
    paused, resume = _pause(facts)
    ahead = counted(facts.ahead, "task") if facts.ahead else "no task"
    worker = (facts.command("workers"), "see whether anybody is there to claim it")
    return (
        [
            f"The next free worker takes it; {ahead} ahead of it.",
            _last_lease(facts),
            _begun(facts),
            _unstarted(facts),
            *paused,
        ],
        [*(resume or [worker]), (facts.command("cancel", facts.task.id), "stop it for good")],
    )


def _approved(facts: Facts) -> Told:
    paused, resume = _pause(facts)
    return ["An executor that claims from the approved lane takes it.", _last_lease(facts), *paused], resume


def _leased(facts: Facts) -> Told:
    task = facts.task
    since = f"since {facts.when(task.claimed_at)}"
    if task.lease_expires_at is not None and task.lease_expires_at < facts.stats.now:
        return _expired(facts, since)
    deadline = ""
    if task.runtime_deadline is not None:
        deadline = f" It ends at {facts.when(task.runtime_deadline)} at the latest, renewed or not."
    waits = ""
    if task.unstarted:
        waits = "Its handler has not begun: it waits for its turn, since one more expiration would be its last."
    return (
        [
            f"{facts.holder} holds it {since}, renewed {counted(task.renewals, 'time')}.",
            f"The lease ends at {facts.when(task.lease_expires_at)} unless it is renewed; the next claim or reap "
            f"recovers it then.{deadline}",
            waits,
            _begun(facts),
        ],
        [
            (facts.command("revoke", task.id, "--token", str(task.fencing_token)), "take the lease away"),
            (facts.command("cancel", task.id), "stop it for good"),
        ],
    )


def _expired(facts: Facts, since: str) -> Told:
    task = facts.task
    if task.side_effect == SideEffect.NON_IDEMPOTENT and task.open_effects:
        to = "to reconciling, because an effect may have happened"
    elif task.expirations + 1 >= task.max_expirations:
        to = f"to dead, because it is the last of {task.max_expirations} expirations"
    else:
        to = "back to ready"
    return (
        [
            f"{facts.holder} held it {since}; the lease ended at {facts.when(task.lease_expires_at)} and gives no "
            "authority any more.",
            f"The next claim or reap recovers it: it goes {to}.",
        ],
        [(facts.command("reap"), "recover it now")],
    )


def _resolving(facts: Facts, decision: str, purpose: str, *more: str) -> tuple[str, str]:
    token = ("--token", str(facts.task.fencing_token)) if facts.task.fencing_token is not None else ()
    return facts.command("reconcile", "resolve", facts.task.id, decision, *more, *token), purpose


def _verdicts(facts: Facts, verdict: str) -> list[str]:
    return [word for effect in facts.in_doubt for word in ("--effect", f"{effect.key}={verdict}")]


def _in_doubt(facts: Facts) -> str:
    """Which effects are in doubt, and what was said of them too late."""
    said = [
        f"After the lease was lost, its worker said that {effect.key} is {effect.testimony.verdict.replace('_', ' ')}."
        for effect in facts.in_doubt
        if effect.testimony
    ]
    names = ", ".join(effect.key for effect in facts.in_doubt)
    effects = counted(facts.task.open_effects, "effect")
    return " ".join([f"{effects} ({names}) may or may not have happened.", *said])


def _believing(facts: Facts, decision: str) -> list[tuple[str, str]]:
    """The command that takes the worker's late word, if there is one."""
    if not any(effect.testimony for effect in facts.in_doubt):
        return []
    return [_resolving(facts, decision, "believe what the worker said", "--accept-late")]


def _keys_sent(facts: Facts) -> str:
    """What to look for at the receiver; a task that records no effects has only its own key to send."""
    task = facts.task
    named = [effect.key for effect in facts.in_doubt if effect.key != HANDLER]
    return ", ".join(receiver_key(task.queue, task.idempotency_key, key) for key in named) or task.idempotency_key


def _reconciling(facts: Facts) -> Told:
    task = facts.task
    return (
        [
            f"{_in_doubt(facts)} {facts.holder} had it, and the lease ended ({task.last_error or 'without a word'}).",
            "Nothing moves it but a decision. Find out whether it happened (the receiver was sent the idempotency key "
            f"{_keys_sent(facts)}), then say so.",
        ],
        [
            _resolving(facts, "done", "it happened", *_verdicts(facts, "done")),
            _resolving(facts, "retry", "it did not happen: do it again", *_verdicts(facts, "not_done")),
            _resolving(facts, "dead", "give it up"),
            *_believing(facts, "done"),
        ],
    )


def _dead(facts: Facts) -> Told:
    task = facts.task
    if task.failures >= task.max_attempts:
        cause = f"it failed {task.failures} of {task.max_attempts} times"
    elif task.expirations >= task.max_expirations:
        cause = f"its lease expired {task.expirations} of {task.max_expirations} times"
    elif facts.decision:
        cause = _decided(facts, "decided so").removesuffix(".")
    else:
        cause = "its last failure was final"
    doubt, settle = _doubt(facts)
    requeue = (facts.command("requeue", task.id), "give it another life")
    return (
        [f"It is given up: {cause}.", _last_lease(facts), *doubt, "Nothing moves it but a decision."],
        settle or [requeue],
    )


def _completed(facts: Facts) -> Told:
    by = [f"{facts.holder} did it."] if facts.task.lease_owner else []
    if facts.decision:
        by = [_decided(facts, "decided that it is done"), _last_lease(facts)]
    doubt, settle = _doubt(facts)
    return (
        [*by, *(doubt or ["Nothing more happens to it; a purge deletes it after its retention."])],
        settle or [(facts.command("show", facts.task.id), "see its result")],
    )


def _cancelled(facts: Facts) -> Told:
    by = _decided(facts, "cancelled it") or "An operator cancelled it."
    doubt, settle = _doubt(facts)
    return (
        [by, _last_lease(facts), *(doubt or ["Nothing more happens to it; a purge deletes it after its retention."])],
        settle or [(facts.command("evidence", facts.task.id), "see what happened")],
    )


def _doubt(facts: Facts) -> Told:
    """About an ended task with an effect in doubt."""
    if facts.unsettled_since is None:
        return [], []
    said = (
        f"It has ended, but {_in_doubt(facts)} It is unsettled since {facts.when(facts.unsettled_since)} and is kept "
        "until somebody decides."
    )
    decision = "done" if facts.task.status == Status.COMPLETED else "dead"
    return [said], [
        _resolving(facts, decision, "it happened", *_verdicts(facts, "done")),
        _resolving(facts, decision, "it did not happen", *_verdicts(facts, "not_done")),
        *_believing(facts, decision),
    ]


def _blocked(facts: Facts) -> Told:
    return [f"It waits for the credential {facts.task.credential}. {_last_lease(facts)}"], [
        (facts.command("cancel", facts.task.id), "stop it for good")
    ]


def _awaiting_approval(facts: Facts) -> Told:
    return [f"It waits for an approval. {_last_lease(facts)}"], [
        (facts.command("cancel", facts.task.id), "stop it for good")
    ]


_STATES: dict[Status, Callable[[Facts], Told]] = {
    Status.SCHEDULED: _scheduled,
    Status.READY: _ready,
    Status.APPROVED: _approved,
    Status.LEASED: _leased,
    Status.BLOCKED: _blocked,
    Status.AWAITING_APPROVAL: _awaiting_approval,
    Status.RECONCILING: _reconciling,
    Status.DEAD: _dead,
    Status.COMPLETED: _completed,
    Status.CANCELLED: _cancelled,
}


def explain(session: Session, task_id: str) -> Explanation:
    """Where a task is, since when, who held it, what moves it, and what to type next."""
    facts = gather(session, task_id)
    task = facts.task
    sentences, commands = _STATES[task.status](facts)
    since = f" since {facts.when(facts.since)}" if facts.since is not None else ""
    first = f"Task {task.id} ({task.name}, {task.side_effect}) is {task.status.replace('_', ' ')}{since}."
    return Explanation(
        task.id,
        task.status,
        facts.since,
        " ".join(sentence for sentence in (first, *sentences) if sentence),
        [{"command": command, "purpose": purpose} for command, purpose in commands],
    )


def as_text(told: Explanation) -> str:
    """For people: the paragraph, and each command on a line of its own, unbroken so that it can be copied."""
    steps = [f"  {output.visible(step['command'])}  # {step['purpose']}" for step in told.next]
    return "\n".join([tables.paragraph(told.text), *steps])
