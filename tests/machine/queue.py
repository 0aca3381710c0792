"""The reference of a queue: time, the fence, the order of tasks, and what happens by itself."""

from __future__ import annotations

from collections import Counter

from . import policy
from .refusal import Outcome, at_cap
from .task import Ending, ModelTask, Options

SHARE = 8
RETENTION_FLOOR_MS = 60_000
CLAIMS_KEPT = 16


class ModelQueue:
    """What a queue holds, in plain Python; `holding`, `effecting` and `operating` act on it.

    Attributes:
        now: The server's time in milliseconds.
    """

    def __init__(self, now: int) -> None:
        self.now = now
        self.fence = 0
        self.sequence = 0
        self.pause = ""
        self.epoch = 0
        self.pause_decided: tuple[str, Outcome] | None = None
        self.tasks: dict[str, ModelTask] = {}
        self.keys: dict[str, tuple[str, Options]] = {}
        self.claims: dict[tuple[str, int], tuple[int, list[tuple[str, int]]]] = {}
        self.counters: Counter[str] = Counter()

    def raise_fence(self) -> int:
        """The next fencing token."""
        self.fence = max(self.fence + 1, self.now * 1000)
        return self.fence

    def standing(self, status: str) -> list[ModelTask]:
        """The tasks of a state in the order of its index."""
        found = [task for task in self.tasks.values() if task.status == status]
        if status == "ready":
            return sorted(found, key=lambda task: task.rank)
        return sorted(found, key=lambda task: (self.score(task), task.id))

    def score(self, task: ModelTask) -> int:
        """Where a task stands in its index, if that is not `ready`."""
        if task.status == "scheduled":
            assert task.due_at is not None
            return task.due_at
        if task.status == "leased":
            assert task.expires_at is not None
            return task.expires_at
        return task.since

    def move(self, task: ModelTask, status: str, *, due_at: int | None = None) -> None:
        """Takes a task into a state; the place in the order is drawn when it is first needed."""
        task.status = status
        task.since = self.now
        task.due_at = due_at
        task.unsettled_since = self.now if task.terminal and task.open_effects else None
        if task.unsettled_since is not None:
            task.since = 2**53 - 1
        if status == "ready" and task.sequence is None:
            self.sequence += 1
            task.sequence = self.sequence

    def enqueue(self, task_id: str, nonce: str, options: Options) -> Outcome:
        """Stores a task, or recognises one."""
        if options.key is not None and options.key in self.keys:
            holder, first = self.keys[options.key]
            if holder != task_id:
                if first.identity != options.identity:
                    return "key_conflict", holder
                return "task", holder, False, self.tasks[holder].status
        if task_id in self.tasks:
            return self._recognise(self.tasks[task_id], nonce, options)
        task = self.tasks[task_id] = ModelTask(task_id, nonce, options, self.now)
        if options.key is not None:
            self.keys[options.key] = (task_id, options)
        if options.delay_ms:
            self.move(task, "scheduled", due_at=self.now + options.delay_ms)
        else:
            self.move(task, "ready")
        self.counters["enqueued"] += 1
        return "task", task_id, True, task.status

    def _recognise(self, task: ModelTask, nonce: str, options: Options) -> Outcome:
        if task.nonce == nonce:
            return "task", task.id, True, task.status
        if (task.options.identity, task.options.key) == (options.identity, options.key):
            return "task", task.id, False, task.status
        return "task_conflict", task.id

    def claim(self, owner: str, number: int, limit: int) -> Outcome:
        """Leases what is ready, after time has had its say; the same number again answers what is still held."""
        share = max(SHARE, limit)
        promoted, expired = self.promote(share), len(self.recover(share))
        slot = owner, number % CLAIMS_KEPT
        last, taken = self.claims.get(slot, (0, []))
        if last == number:
            held = [self.tasks[task_id] for task_id, token in taken if self._still_held(task_id, owner, token)]
            return "claimed", tuple(self._grant(task) for task in held), True, False, None
        if last > number:
            return ("stale_request",)
        if limit:
            self.claims[slot] = number, []
        if self.pause:
            return "claimed", (), False, True, None
        ready = self.standing("ready")
        granted = ready[:limit]
        for task in granted:
            self._lease(task, owner)
        if limit:
            self.claims[slot] = number, [(task.id, task.token or 0) for task in granted]
        more = len(ready) > limit or promoted == share or expired == share
        grants = tuple(self._grant(task) for task in granted)
        return "claimed", grants, more, False, None if more else self.next_due()

    def _still_held(self, task_id: str, owner: str, token: int) -> bool:
        task = self.tasks.get(task_id)
        return bool(task and task.token == token and task.owner == owner and self.lives(task))

    def lives(self, task: ModelTask) -> bool:
        """Whether somebody holds the task."""
        return task.status == "leased" and (task.expires_at or 0) >= self.now

    def _grant(self, task: ModelTask) -> Outcome:
        left = (task.expires_at or 0) - self.now
        return task.id, task.generation, task.token, task.expires_at, left, task.attempts, task.failures

    def _lease(self, task: ModelTask, owner: str) -> None:
        options = task.options
        self.move(task, "leased")
        task.owner = owner
        task.generation += 1
        task.attempts += 1
        task.token = self.raise_fence()
        task.claimed_at = task.renewed_at = self.now
        task.renewals = 0
        task.expires_at = self.now + options.lease_ms
        task.deadline = None if options.max_runtime_ms is None else self.now + options.max_runtime_ms
        if options.side_effect == "non_idempotent" and not options.records_effects:
            task.handler_open = True
        self.counters["claimed"] += 1

    def end_lease(self, task: ModelTask, verb: str, cause: str, *, delay_ms: int | None = None) -> Ending:
        """Ends the lease of a task, whatever ended it."""
        policy.count(task, cause)
        status = policy.destination(task, cause, delayed=delay_ms is not None)
        due_at = self.now + (delay_ms or 0) if status == "scheduled" else None
        self.move(task, status, due_at=due_at)
        task.expires_at = task.deadline = None
        task.ended = Ending(task.token or 0, verb, status, due_at, 0 if due_at else task.open_effects)
        self.counters[cause] += 1
        return task.ended

    def take_lease(self, task: ModelTask, cause: str) -> Ending:
        """Ends a lease that its holder did not end; nobody knows what it has done."""
        self.raise_fence()
        return self.end_lease(task, cause, cause)

    def recover(self, limit: int) -> list[Outcome]:
        """Ends leases that have expired."""
        recovered = []
        for task in [task for task in self.standing("leased") if not self.lives(task)][:limit]:
            cause = "max_runtime" if at_cap(task) else "expired"
            ended = self.take_lease(task, cause)
            recovered.append((task.id, cause, ended.status, task.generation, task.owner, task.options.side_effect))
        return recovered

    def promote(self, limit: int) -> int:
        """Makes ready what is due; answers how many."""
        due = [task for task in self.standing("scheduled") if self.score(task) <= self.now][:limit]
        for task in due:
            self.move(task, "ready")
        self.counters["promoted"] += len(due)
        return len(due)

    def next_due(self) -> int | None:
        """When something happens by itself: a task becomes due, or a lease is over."""
        times = [self.score(task) for task in self.standing("scheduled")]
        times += [self.score(task) + 1 for task in self.standing("leased")]
        return min(times, default=None)

    def reap(self, limit: int) -> Outcome:
        """What a reaper does."""
        recovered = self.recover(limit)
        promoted = self.promote(limit)
        return "reaped", tuple(recovered), promoted, self.fence

    def purge(self, retentions_ms: dict[str, int | None]) -> Outcome:
        """Deletes what has outlived its retention; what is unsettled stays."""
        purged = {}
        for status, retention in retentions_ms.items():
            before = self.now - max(retention or 0, RETENTION_FLOOR_MS)
            gone = [task for task in self.standing(status) if retention is not None and task.since <= before]
            for task in gone:
                del self.tasks[task.id]
                if task.options.key is not None and self.keys[task.options.key][0] == task.id:
                    del self.keys[task.options.key]
            purged[status] = len(gone)
        return "purged", purged["completed"], purged["cancelled"], purged["dead"]
