"""The two acts of the demonstration."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from redislease.demo.probes import VERBS, probe
from redislease.demo.process import WorkerProcess, WorkerSilent
from redislease.demo.record import ACCEPTED, Record
from redislease.demo.stage import Stage
from redislease.demo.worker import PAYMENT, REPORT
from redislease.errors import NotAllowedNow
from redislease.handle import Handle

EXPIRY_S = 15.0
A, B, C, REAPER, SERVER, RESOURCE, OPERATOR = (
    "worker A", "worker B", "worker C", "reaper", "server", "resource", "operator",
)  # fmt: skip


class Stopped(Exception):
    """Something was not answered as it had to be, and what comes next would make no sense."""


class StaleWorker:
    """A worker is stopped, another one recovers its task, and the first one goes on."""

    def __init__(self, stage: Stage, record: Record, a: WorkerProcess, b: WorkerProcess) -> None:
        self._stage = stage
        self._queue = stage.queue
        self._record = record
        self._a = a
        self._b = b

    def play(self) -> None:
        """Plays the act.

        Raises:
            Stopped: At the end of a scene in which something was answered wrongly.
        """
        record = self._record
        record.heading("A worker is stopped, and its lease ends")
        self._task_id = self._stage.enqueue(REPORT, side_effect="idempotent")
        record.note("producer", f"enqueues a task with a lease of {self._stage.lease_s:.1f} s")
        self._a_begins_and_is_stopped()
        self._lease_ends()
        go_on_if_right(record)
        record.heading("Another worker takes the task over")
        self._b_takes_over()
        self._probe()
        go_on_if_right(record)
        record.heading("The stopped worker goes on, while the other one holds the task")
        self._a.send_news()
        record.seen(A, "runs again by SIGCONT", self._a.resume() in "RSD", expected=True)
        self._a_tries("reclaimed")
        record.seen(B, "still holds the task", state(self._stage, self._task_id), expected=self._held_by_b)
        self._resource_is_b()
        go_on_if_right(record)
        record.heading("The other one finishes, and the first one tries again")
        self._b_finishes()
        self._a.send_news()
        self._a_tries("superseded")
        self._everything_is_b()
        go_on_if_right(record)

    def _a_begins_and_is_stopped(self) -> None:
        record = self._record
        self._a.send_news()
        said = self._a.hear("claimed")
        self._first = Handle.decode(said["handle"])
        record.note(A, f"claims generation {self._first.generation}", f"token {self._first.token}")
        compare(record, A, said["tried"])
        record.seen(A, "is stopped by SIGSTOP; its process state", self._a.stop(), expected="T")
        holder = f"leased {self._first.owner} 1"
        record.seen(A, "holds the task", state(self._stage, self._task_id), expected=holder)

    def _lease_ends(self) -> None:
        record = self._record
        wait_for_expiry(self._stage, self._task_id)
        record.note(SERVER, "A's lease has ended; nobody has noticed yet")
        for verb in VERBS:
            answer = probe(self._queue, verb, self._first)
            record.refused("A's lease", f"{verb} after its end, before recovery", answer, reason="expired")

    def _b_takes_over(self) -> None:
        record = self._record
        recover(self._stage, record, self._task_id, expected="expired -> ready")
        go_on_if_right(record)
        self._b.send_news()
        said = self._b.hear("claimed")
        self._second = Handle.decode(said["handle"])
        self._held_by_b = f"leased {self._second.owner} 2"
        record.note(B, f"claims generation {self._second.generation}", f"token {self._second.token}")
        record.seen(B, "has a higher token", self._second.token > self._first.token, expected=True)
        record.seen(B, "holds the task", state(self._stage, self._task_id), expected=self._held_by_b)
        compare(record, B, said["tried"])

    def _probe(self) -> None:
        """What A may not do any more, and leases put together from parts of both."""
        first, second = self._first, self._second
        for verb in VERBS:
            answer = probe(self._queue, verb, first)
            self._record.refused("A's lease", f"{verb} while B holds the task", answer, reason="reclaimed")
        forged = {
            "B's token with A's generation": (second._replace(generation=first.generation), "not_owner"),
            "B's token with A's owner": (second._replace(owner=first.owner), "not_owner"),
            "A's token with B's owner and generation": (second._replace(token=first.token), "reclaimed"),
            "a token that was never issued": (second._replace(token=second.token + 10**9), "not_issued"),
        }
        for parts, (handle, reason) in forged.items():
            for verb in ("renew", "complete"):
                answer = probe(self._queue, verb, handle)
                self._record.refused("a forgery", f"{verb} with {parts}", answer, reason=reason)

    def _a_tries(self, reason: str) -> None:
        """A goes on by itself: everything is refused."""
        said = self._a.hear("went on")
        others = {"write to the resource": "stale token", "repeat its claim": "nothing is held"}
        compare(self._record, A, said["tried"], reason, others)
        self._record.seen(A, "knows by its own handle that it lost", said["locally"] != "held", expected=True)

    def _b_finishes(self) -> None:
        self._b.send_news()
        tried = self._b.hear("finished")["tried"]
        compare(self._record, B, tried, others={"fail what it has completed": "settled"})

    def _everything_is_b(self) -> None:
        record = self._record
        completed = f"completed {self._second.owner} 2"
        record.seen(SERVER, "the task", state(self._stage, self._task_id), expected=completed)
        record.seen(SERVER, "the result", self._queue.result(self._task_id), expected={"by": B})
        self._resource_is_b()
        late = [
            line["verb"]
            for line in self._queue.evidence(self._task_id)
            if line["event"] in ("late_result", "refused") and line["token"] == str(self._first.token)
        ]
        record.seen(SERVER, "evidence of A's late calls", sorted(late), expected=sorted(VERBS))

    def _resource_is_b(self) -> None:
        expected = f"by worker B, token {self._second.token}"
        self._record.seen(RESOURCE, "the report", written(self._stage, REPORT), expected=expected)


class DoubtfulPayment:
    """A worker dies in the middle of something that must not happen twice."""

    def __init__(self, stage: Stage, record: Record, b: WorkerProcess, c: WorkerProcess) -> None:
        self._stage = stage
        self._queue = stage.queue
        self._record = record
        self._b = b
        self._c = c

    def play(self) -> None:
        """Plays the act.

        Raises:
            Stopped: Something was answered wrongly.
        """
        record = self._record
        record.heading("A worker dies in the middle of something that must not happen twice")
        self._task_id = self._stage.enqueue(PAYMENT, side_effect="non_idempotent")
        record.note("producer", "enqueues a payment, declared non_idempotent")
        self._c.send_news()
        said = self._c.hear("claimed")
        self._held = Handle.decode(said["handle"])
        record.note(C, f"claims generation {self._held.generation}", f"token {self._held.token}")
        compare(record, C, said["tried"])
        record.seen(C, "is killed before it can say that it paid, by", self._c.kill(), expected="SIGKILL")
        wait_for_expiry(self._stage, self._task_id)
        recover(self._stage, record, self._task_id, expected="expired -> reconciling")
        self._b.send_news()
        record.seen(B, "looks for work; tasks found", self._b.hear("looked")["found"], expected=0)
        go_on_if_right(record)
        self._operator_decides()
        go_on_if_right(record)

    def _operator_decides(self) -> None:
        record = self._record
        owner = self._held.owner
        record.refused(OPERATOR, "retry without having looked", self._resolve("retry"), reason="open_effects")
        reason = "the bank's statement shows the payment"
        record.accepted(OPERATOR, f"resolve as done, because {reason}", self._resolve("done", reason))
        answer = probe(self._queue, "complete", self._held)
        record.refused("C's lease", "complete after that", answer, reason="expired")
        record.seen(SERVER, "the payment", state(self._stage, self._task_id), expected=f"completed {owner} 1")
        expected = f"paid, token {self._held.token}"
        record.seen(RESOURCE, "the payment", written(self._stage, PAYMENT), expected=expected)

    def _resolve(self, decision: str, reason: str = "") -> str:
        effects = {"handler": "done"} if decision == "done" else {}
        try:
            self._queue.resolve(self._task_id, decision, by=OPERATOR, reason=reason, effects=effects)
        except NotAllowedNow as refusal:
            return refusal.reason
        return ACCEPTED


def go_on_if_right(record: Record) -> None:
    """Ends the demonstration at the end of a scene in which something was answered wrongly."""
    if record.failures:
        raise Stopped


def compare(
    record: Record,
    actor: str,
    tried: Iterable[tuple[str, str]],
    reason: str = "",
    others: Mapping[str, str] | None = None,
) -> None:
    """Writes down what a worker tried.

    Args:
        record: The timeline.
        actor: Who it was.
        tried: What was tried, each with the answer.
        reason: Why all of it had to be refused; '' if it had to be accepted.
        others: What had to be refused for a reason of its own.
    """
    for what, answer in tried:
        why = (others or {}).get(what, reason)
        if why:
            record.refused(actor, what, answer, reason=why)
        else:
            record.accepted(actor, what, answer)


def state(stage: Stage, task_id: str) -> str:
    """State, owner and generation of a task."""
    task = stage.queue.get(task_id)
    return f"{task.status} {task.lease_owner} {task.claim_generation}"


def written(stage: Stage, name: str) -> str:
    """What an entry of the resource holds, and the token that it was written under."""
    token, text = stage.ledger.read(name)
    return f"{text}, token {token}"


def recover(stage: Stage, record: Record, task_id: str, *, expected: str) -> None:
    """Runs the reaper once; `expected` is the cause and the state that it has to answer."""
    moves = [f"{one.cause} -> {one.status}" for one in stage.queue.reap().recovered if one.id == task_id]
    record.seen(REAPER, "recovers the task", ", ".join(moves) or "it did not", expected=expected)


def wait_for_expiry(stage: Stage, task_id: str) -> None:
    """Waits until a lease has ended by the server's clock; nothing is recovered by looking.

    Raises:
        WorkerSilent: It does not end.
    """
    deadline = time.monotonic() + EXPIRY_S
    while time.monotonic() < deadline:
        expires_at = stage.queue.get(task_id).lease_expires_at
        if expires_at is None or stage.queue.stats().now > expires_at:
            return
        time.sleep(0.02)
    raise WorkerSilent(f"the lease of {task_id} did not end within {EXPIRY_S:g} s")
