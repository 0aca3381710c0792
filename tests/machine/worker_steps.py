"""What producers and workers do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from . import holding
from .actions import action
from .base import Named, Steps, ms, pick
from .refusal import Outcome
from .task import Options

ALIVE_MAX = 4
CHOICE = st.integers(0, 11)
KINDS = st.sampled_from(("idempotent", "non_idempotent", "non_idempotent", "read_only"))
LIMITS: tuple[dict[str, Any], ...] = (
    {},
    {"lease_duration": 10},
    {"lease_duration": 10, "max_attempts": 2, "max_expirations": 2},
    {"lease_duration": 10, "max_attempts": 1, "max_expirations": 1},
    {"lease_duration": 10, "max_runtime": 25},
    {"lease_duration": 10, "max_same_error": 2},
)
DELAYS = st.sampled_from((None, None, 0, 5))


class WorkerSteps(Steps):
    """Enqueue, claim, and everything that a lease allows."""

    @action(
        11,
        task_id=st.sampled_from((None, "a", "b", "c")),
        kind=KINDS,
        records=st.booleans(),
        limits=st.sampled_from(LIMITS),
        priority=st.sampled_from((0, 7)),
        key=st.sampled_from((None, None, None, "k")),
        delay=st.sampled_from((None, None, None, 5)),
        n=st.sampled_from((0, 1)),
    )
    def enqueue(self, task_id: str | None, kind: str, records: bool, n: int, **more: Any) -> None:
        """By a producer who may choose the id, and so meet an older task; where there are enough, somebody claims."""
        if sum(not task.terminal for task in self.model.tasks.values()) >= ALIVE_MAX:
            self.claim(0, 1)
            return
        limits, priority, key, delay = (more[name] for name in ("limits", "priority", "key", "delay"))
        options = Options(
            "work",
            kind,
            {"n": n},
            records,
            priority,
            key,
            ms(delay),
            1000 * limits.get("lease_duration", 60),
            limits.get("max_attempts", 5),
            limits.get("max_expirations", 3),
            ms(limits.get("max_runtime")),
            limits.get("max_same_error"),
        )
        named = {"task_id": task_id, "idempotency_key": key, "priority": priority, "delay": delay, **limits}
        task = self.do(
            0,
            lambda queue: queue.enqueue("work", {"n": n}, side_effect=kind, records_effects=records, **named),
            lambda sent: self.model.enqueue(sent["id"], sent["nonce"] or sent["id"], options),
        )
        found = getattr(task, "id", None)
        if found and found not in self.ids:
            self.ids.append(found)

    @action(9, who=st.sampled_from((0, 1)), limit=st.sampled_from((1, 1, 2, 2, 3, 0)))
    def claim(self, who: int, limit: int) -> None:
        """By either worker."""
        self.do(
            who,
            lambda queue: queue.claim(limit),
            lambda sent: self.model.claim(sent["owner"], sent["request_number"], limit),
        )

    @action(
        2,
        one=CHOICE,
        other=CHOICE,
        what=st.sampled_from(("owner", "generation", "token", "not issued")),
        use=st.sampled_from(("complete", "renew", "fail", "release", "intend", "")),
    )
    def mix(self, one: int, other: int, what: str, use: str) -> None:
        """A lease that nobody was given: parts of two, or a token of the future; used at once, and perhaps later."""
        if not self.leases:
            return
        who, lease, held = self.lease(one)
        another = self.lease(other)[2]
        owner, grant = held.owner, lease._grant
        if what == "owner":
            owner = another.owner if another.owner != owner else "nobody-7"
        elif what == "generation":
            grant = grant._replace(generation=held.generation + 1)
        elif what == "token":
            grant = grant._replace(token=another.token if another.token != held.token else held.token - 1)
        else:
            grant = grant._replace(token=self.model.fence + 10_000_000)
        self.leases.append((who, self.world.lease(who, owner, grant)))
        if use in USES:
            USES[use](self)

    @action(5, which=CHOICE, length=st.sampled_from((None, None, 0.5, 30)))
    def renew(self, which: int, length: float | None) -> None:
        """Also to a length of its own."""
        if self.leases:
            who, lease, held = self.lease(which)
            self.do(who, lambda _: lease.renew(length), lambda _: holding.renew(self.model, held, ms(length)))

    @action(1, which=CHOICE)
    def report(self, which: int) -> None:
        """How far the work is."""
        if not self.leases:
            return
        who, lease, held = self.lease(which)

        def act(_: Any) -> Outcome:
            lease.progress(1, 2, "half")
            return "settled", "leased", None, 0, False

        self.do(who, act, lambda _: holding.progress(self.model, held))

    @action(1, which=CHOICE)
    def attach(self, which: int) -> None:
        """Another process takes a lease up from its handle, which renews it."""
        if not self.leases:
            return
        who, lease, held = self.lease(which)

        def act(queue: Any) -> Outcome:
            taken = queue.attach(lease.handle())
            self.leases.append((who, taken))
            left_ms = taken._grant.remaining_ms
            return "renewed", taken.expires_at, left_ms, taken.expires_at == taken.task.runtime_deadline

        self.do(who, act, lambda _: holding.renew(self.model, held, None))

    @action(3, which=CHOICE, result=st.sampled_from((None, {"ok": 1})), ref=st.sampled_from((None, "there")))
    def complete(self, which: int, result: Any, ref: str | None) -> None:
        """One lease."""
        if self.leases:
            who, lease, held = self.lease(which)
            self.do(
                who, lambda _: lease.complete(result, ref), lambda _: holding.complete(self.model, held, result, ref)
            )

    @action(2, which=st.lists(CHOICE, min_size=1, max_size=3), limit=st.sampled_from((0, 1, 2)))
    def complete_many(self, which: list[int], limit: int) -> None:
        """Many leases, the same one perhaps twice, with the next claim."""
        if not self.leases:
            return
        chosen = [self.lease(one) for one in which]

        def model(sent: Named) -> Any:
            answers = [holding.complete(self.model, held, "many") for _, _, held in chosen]
            settled = answers[0] if len(answers) == 1 else tuple(answers)
            if not limit:
                return settled
            return "both", settled, self.model.claim(sent["owner"], sent["request_number"], limit)

        def act(queue: Any) -> Any:
            answers, leases = queue.complete_many([(lease, "many") for _, lease, _ in chosen], claim=limit)
            return (answers, leases) if limit else answers

        self.do(chosen[0][0], act, model)

    @action(
        4,
        which=CHOICE,
        error=st.sampled_from(("boom 1", "boom 2", "other")),
        retry=st.sampled_from((True, True, True, False)),
        delay=DELAYS,
        not_done=st.booleans(),
    )
    def fail(self, which: int, error: str, retry: bool, delay: float | None, not_done: bool) -> None:
        """With the task's backoff, or a delay of one's own; for good, without a delay."""
        if not self.leases:
            return
        who, lease, held = self.lease(which)
        delay = delay if retry else None

        def model(sent: Named) -> Any:
            asked = int(sent["delay_ms"])
            longest = 1000 * 2**lease.task.failures
            assert asked == ms(delay) if delay is not None else longest / 2 <= asked <= longest
            return holding.fail(self.model, held, error, retry=retry, delay_ms=asked, not_done=not_done)

        self.do(who, lambda _: lease.fail(error, retry=retry, delay=delay, not_done=not_done), model)

    @action(2, which=CHOICE, delay=DELAYS, interrupted=st.booleans())
    def release(self, which: int, delay: float | None, interrupted: bool) -> None:
        """Before the work, or in the middle of it."""
        if not self.leases:
            return
        who, lease, held = self.lease(which)
        self.do(
            who,
            lambda _: lease.release(delay, interrupted=interrupted),
            lambda _: holding.release(self.model, held, ms(delay), interrupted=interrupted),
        )

    @action(4, which=CHOICE, key=st.sampled_from(("mail", "pay")), request=st.sampled_from(("x", "x", "y")))
    def intend(self, which: int, key: str, request: str) -> None:
        """An effect is about to happen."""
        if not self.leases:
            return
        who, lease, held = self.lease(which)
        effect = lease.effect(key, request=request)

        def act(_: Any) -> Outcome:
            effect.__enter__()
            return "intent", "done" if effect.done else "again" if effect.again else "open"

        answer = self.do(who, act, lambda sent: holding.intend(self.model, held, key, sent["nonce"], request))
        if answer == ("intent", "done"):
            self.agree(effect.outcome, self.model.tasks[lease.id].effects[key].outcome)
        elif isinstance(answer, tuple):
            self.effects.append((who, held, key, effect))

    @action(4, which=CHOICE, verdict=st.sampled_from(("done", "done", "not_done")), outcome=st.sampled_from(("o", "r")))
    def tell(self, which: int, verdict: str, outcome: str) -> None:
        """What became of it, perhaps too late, perhaps twice."""
        if not self.effects:
            return
        who, held, key, effect = pick(self.effects, which // 2)

        def act(_: Any) -> Outcome:
            if verdict == "done":
                effect.record(outcome)
            else:
                effect.not_done(outcome)
            return "told", "ok"

        self.do(who, act, lambda sent: holding.tell(self.model, held, key, sent["nonce"], verdict, outcome))

    @action(
        3,
        key=st.sampled_from(("mail", "pay")),
        verdict=st.sampled_from(("done", "not_done", "")),
        then=st.sampled_from(("x", "x", "y")),
    )
    def hand_over(self, key: str, verdict: str, then: str) -> None:
        """One attempt begins an effect, and the next one meets it: rare enough by chance."""
        self.intend(ALIVE, key, "x")
        if verdict:
            self.tell(ALIVE, verdict, "o")
        self.release(ALIVE, None, False)
        self.claim(0, 1)
        self.intend(ALIVE, key, then)


ALIVE = 0
NEWEST = 1
USES: dict[str, Callable[[WorkerSteps], None]] = {
    "complete": lambda steps: steps.complete(NEWEST, None, None),
    "renew": lambda steps: steps.renew(NEWEST, None),
    "fail": lambda steps: steps.fail(NEWEST, "other", True, None, False),
    "release": lambda steps: steps.release(NEWEST, None, False),
    "intend": lambda steps: steps.intend(NEWEST, "mail", "x"),
}
"""What is done with a lease that nobody was given."""
