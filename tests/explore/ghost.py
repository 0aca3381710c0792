"""What the callers know, kept beside the keyspace: leases, answers, decisions.

The checks compare it with what the keys say. It follows from the calls and their replies alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

HANDLER = b"handler"


class Lease(NamedTuple):
    """A lease as its holder knows it.

    Attributes:
        task: Id of the task.
        owner: Who holds it.
        generation: As the claim answered it.
        token: As the claim answered it.
        request: The request number of the claim; 0 once it cannot matter.
        expires: The expiry that the holder was told last; 0 when the lease has ended.
        renewed: When the holder was told so.
        cap: The deadline that no renewal passes; 0 without one.
        live: It was neither settled, recovered nor taken away.
        settled: The verb and the answer of the settle that was accepted, until a later lease of the task has ended.
        unstarted: Its holder was asked to say when the handler begins, and has not said so.
    """

    task: bytes
    owner: bytes
    generation: int
    token: int
    request: int
    expires: int
    renewed: int
    cap: int = 0
    live: bool = True
    settled: tuple[bytes, ...] = ()
    unstarted: bool = False

    def holds(self, now: int) -> bool:
        """Whether its holder may act."""
        return self.live and self.expires >= now

    def ended(self, *settled: bytes) -> Lease:
        """The same lease after its end."""
        return self._replace(live=False, request=0, expires=0, renewed=0, cap=0, settled=settled, unstarted=False)


class Effect(NamedTuple):
    """What was recorded of an effect, as its callers were told.

    Attributes:
        task: Id of the task.
        key: Its key; `handler` is the implicit one.
        state: `open`, `done` or `not_done`.
        token: Of the lease that opened it last; 0 for the implicit one.
        nonce: Of the call that opened it last.
        digest: Of the request; `-` once it did not happen.
        outcome: What was recorded.
        late: The verdict of a holder that had lost its lease, if there is testimony; `inherited` when it was another
            lease than the one that opened it last, which says that it was done.
        spent: The nonces that it replaced in the same attempt.
        again: An earlier lease had left it open.
        earlier: Token and nonce of the lease that had begun it before, if there is one.
    """

    task: bytes
    key: bytes
    state: bytes = b"open"
    token: int = 0
    nonce: bytes = b""
    digest: bytes = b""
    outcome: bytes = b""
    late: bytes = b""
    spent: tuple[bytes, ...] = ()
    again: bool = False
    earlier: tuple[Any, ...] = ()


class Decision(NamedTuple):
    """What an operator sent and was answered.

    Attributes:
        verb: The script.
        task: Id of the task, b"" for the queue.
        args: The arguments after `durable`; the nonce is one of them.
        token: The token among the arguments, 0 if there is none.
        answer: The reply.
        stands: Nothing later has replaced it, so the same call must get the same answer.
    """

    verb: str
    task: bytes
    args: tuple[bytes, ...]
    token: int
    answer: tuple[bytes, ...]
    stands: bool = True


class Ghost(NamedTuple):
    """Everything that the callers know.

    Attributes:
        leases: In the order of acquisition; the oldest of a task are forgotten.
        top: The highest token that was ever acquired.
        high: The latest time that the clock has shown.
        lost_at: The latest time at which a token was acquired that a restart has lost; 0 without one.
        requests: The last request number of each worker.
        recorded: The request numbers that brought something, the latest few of each worker.
        stored: How many times each task was stored.
        effects: What was recorded of effects, in the order of task and key.
        decisions: The latest few decisions.
        decided: How many decisions were accepted: the number of the next nonce.
        pause: The level that the queue is paused for.
        epoch: How often it was paused or resumed.
        faults: What was planted and is still there, as index and id.
        spent: How often each limited action was taken.
    """

    leases: tuple[Lease, ...] = ()
    top: int = 0
    high: int = 0
    lost_at: int = 0
    requests: tuple[int, ...] = ()
    recorded: tuple[tuple[int, ...], ...] = ()
    stored: tuple[int, ...] = ()
    effects: tuple[Effect, ...] = ()
    decisions: tuple[Decision, ...] = ()
    decided: int = 0
    pause: bytes = b""
    epoch: int = 0
    faults: tuple[tuple[bytes, bytes], ...] = ()
    spent: tuple[int, ...] = ()

    def live(self, task: bytes) -> Lease | None:
        """The lease of a task that has not ended."""
        for lease in reversed(self.leases):
            if lease.live and lease.task == task:
                return lease
        return None

    def open_of(self, task: bytes) -> list[bytes]:
        """The keys of the open effects of a task."""
        return [one.key for one in self.effects if one.task == task and one.state == b"open"]

    def effect(self, task: bytes, key: bytes) -> Effect | None:
        """What was recorded of an effect."""
        return next((one for one in self.effects if one.task == task and one.key == key), None)

    def behind(self, fence: int) -> Ghost:
        """The same after the clock has stepped back over a restart: lost tokens may be issued again."""
        leases = tuple(lease for lease in self.leases if lease.token <= fence)
        return self._replace(leases=leases, top=min(self.top, fence), lost_at=0)

    def plain(self) -> tuple[Any, ...]:
        """The same without names, for a digest."""
        named = (self.leases, self.decisions, self.effects)
        plain = [tuple(map(tuple, group)) for group in named]
        return (*plain, *self._replace(leases=(), decisions=(), effects=()))

    def spend(self, limited: int) -> Ghost:
        """The same after one more of a limited action."""
        spent = list(self.spent)
        spent[limited] += 1
        return self._replace(spent=tuple(spent))

    def grant(self, leases: list[Lease], remembered: int) -> Ghost:
        """The same after an acquisition; of each task only the latest few leases are remembered."""
        if not leases:
            return self
        known = [*self.leases, *leases]
        for lease in leases:
            of_task = [old for old in known if old.task == lease.task]
            for forgotten in of_task[: max(0, len(of_task) - remembered)]:
                known.remove(forgotten)
        return self._replace(leases=tuple(known), top=max(self.top, leases[-1].token))

    def end(self, lease: Lease, *settled: bytes) -> Ghost:
        """The same after the end of a lease; what earlier leases of its task were answered no longer counts."""
        leases = []
        for old in self.leases:
            if old.token == lease.token:
                leases.append(old.ended(*settled))
            elif old.settled and old.task == lease.task:
                leases.append(old._replace(settled=()))
            else:
                leases.append(old)
        return self._replace(leases=tuple(leases))

    def renew(self, lease: Lease, expires: int, now: int) -> Ghost:
        """The same after a renewal."""
        told = lease._replace(expires=expires, renewed=now)
        return self._replace(leases=tuple(told if old is lease else old for old in self.leases))

    def start(self, lease: Lease) -> Ghost:
        """The same after a handler has begun."""
        begun = lease._replace(unstarted=False)
        return self._replace(leases=tuple(begun if old is lease else old for old in self.leases))

    def record(self, effect: Effect) -> Ghost:
        """The same with an effect as it is now."""
        kept = [one for one in self.effects if one[:2] != effect[:2]]
        return self._replace(effects=tuple(sorted([*kept, effect])))

    def forget(self, task: bytes, key: bytes | None = None) -> Ghost:
        """The same without an effect of a task, or without any."""
        if not self.effects:
            return self
        kept = tuple(one for one in self.effects if one.task != task or key not in (None, one.key))
        return self._replace(effects=kept)

    def close(self, task: bytes, key: bytes, verdict: bytes, outcome: bytes) -> Ghost:
        """The same after the outcome of an effect; nothing remains of the implicit one."""
        effect = self.effect(task, key)
        if key == HANDLER or effect is None:
            return self.forget(task, key)
        digest = b"-" if verdict == b"not_done" else effect.digest
        return self.record(effect._replace(state=verdict, digest=digest, outcome=outcome))

    def end_try(self, task: bytes, key: bytes) -> Ghost:
        """The same when a person is about to decide: what the try's holder says from now on comes from before."""
        effect = self.effect(task, key)
        if key == HANDLER or effect is None or effect.nonce == b"-":
            return self
        return self.record(effect._replace(nonce=b"-", earlier=(effect.token, effect.nonce)))

    def give_up(self, task: bytes, key: bytes) -> Ghost:
        """The same after a try that did not happen: of one that an earlier lease had begun it says nothing."""
        effect = self.effect(task, key)
        if effect is None or not effect.again:
            return self.close(task, key, b"not_done", b"")
        return self.record(effect._replace(nonce=b"-", spent=(effect.nonce, *effect.spent), again=False))

    def decide(self, decision: Decision, remembered: int) -> Ghost:
        """The same after a decision that was accepted; the one before it on the same task no longer stands."""
        before = [old._replace(stands=False) if old.task == decision.task else old for old in self.decisions]
        kept = (*before, decision)[-remembered:]
        return self._replace(decisions=tuple(kept), decided=self.decided + 1)

    def purge(self, task: bytes) -> Ghost:
        """The same after the task was deleted: nothing that was answered about it counts any more."""
        leases = tuple(old.ended() if old.task == task else old for old in self.leases)
        decisions = tuple(old for old in self.decisions if old.task != task)
        return self.forget(task)._replace(leases=leases, decisions=decisions)
