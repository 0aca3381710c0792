"""What each number and name of a state is called in its normal form."""

from __future__ import annotations

from .ghost import Ghost
from .texts import INDEXES, META, TASK, fields, scores
from .view import START_MS, Scope, State

SEQUENCES = 1 << 44
FAR_MS = 61_000
"""Further in the past than this, no step back and no retention brings a moment near again."""


def _number(stored: dict[bytes, bytes], name: bytes) -> int:
    return int(stored.get(name, b"0"))


class Naming:
    """The names of one state.

    Args:
        scope: What is explored.
        state: The state.
        merges: The kinds of merging that are wanted.
    """

    def __init__(self, scope: Scope, state: State, merges: frozenset[str]) -> None:
        self._scope = scope
        self._ghost = state.ghost
        self._merges = merges
        texts = [state.texts.get(TASK + kind.id) for kind in scope.tasks]
        self._tasks = [fields(text) for text in texts if text]
        self._meta = fields(state.texts[META])
        self._delta = state.now - START_MS if "time" in merges else 0
        self._tokens = self._name_tokens()
        self._sequences = self._name_sequences(state)
        self._owners = self._name_owners()
        self._nonces = self._name_nonces()
        self._requests = dict(zip(scope.workers, map(self._name_requests, range(len(scope.workers))), strict=True))
        self._live = {lease.token: lease.owner for lease in state.ghost.leases if lease.live}

    def signature(self) -> tuple[object, ...]:
        """What every name follows from: where it is the same, everything is called the same."""
        maps = (self._tokens, self._sequences, self._owners, self._nonces, self._live, *self._requests.values())
        return (self._delta, *(tuple(one.items()) for one in maps))

    def moment(self, moment: int) -> int:
        """A time: relative to now, and no further away than it matters."""
        if "time" not in self._merges:
            return moment
        return max(moment - self._delta, START_MS - FAR_MS)

    def deadline(self, deadline: int, expires: int) -> int:
        """The end of an attempt; it stays behind the expiry even if both are long past."""
        named = self.moment(deadline)
        return named + 1 if deadline > expires and named == self.moment(expires) else named

    def lost_at(self, ghost: Ghost) -> int:
        """When the tokens were lost that stand above the fence; 0 if there are none."""
        fence = _number(self._meta, b"fence")
        lost = ghost.top > fence or any(lease.token > fence for lease in ghost.leases)
        return self.moment(ghost.lost_at) if lost and ghost.lost_at else 0

    def detail(self, detail: bytes) -> bytes:
        """The last word of an answer: a time, or a small number."""
        return b"%d" % self.moment(int(detail)) if len(detail) > 9 else detail

    def token(self, token: int) -> int:
        """A fencing token."""
        return self._tokens[token] if token else 0

    def sequence(self, sequence: int) -> int:
        """A place in line."""
        return self._sequences.get(sequence, sequence)

    def place(self, score: int) -> int:
        """A score in `ready`."""
        return score - score % SEQUENCES + self.sequence(score % SEQUENCES)

    def owner(self, owner: bytes) -> bytes:
        """A worker."""
        return self._owners[owner]

    def nonce(self, nonce: bytes) -> bytes:
        """The nonce of a decision, and everything else as it is."""
        return self._nonces.get(nonce, nonce)

    def request(self, owner: bytes, request: int) -> int:
        """A request number, 0 if it will not be sent again."""
        return self._requests[owner].get(request, 0)

    def requests(self, ghost: Ghost) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        """The last request numbers and the recorded ones of all workers, in their new order."""
        order = sorted(range(len(self._scope.workers)), key=lambda place: self._owners[self._scope.workers[place]])
        names = [self._requests[self._scope.workers[place]] for place in order]
        last = tuple(named[ghost.requests[place]] for named, place in zip(names, order, strict=True))
        recorded = tuple(
            tuple(named[request] for request in ghost.recorded[place])
            for named, place in zip(names, order, strict=True)
        )
        return last, recorded

    def claim_record(self, owner: bytes, record: bytes) -> bytes:
        """What a worker's record says: without the leases that have ended, and nothing if it is not asked again."""
        request, first_token, *ids = record.split(b" ")
        named = self.request(owner, int(request))
        if not named:
            return b""
        kept = [(int(first_token) + place, task) for place, task in enumerate(ids)]
        kept = [(token, task) for token, task in kept if self._live.get(token) == owner]
        if not kept:
            return b"%d 0 -" % named
        return b"%d %d %b" % (named, self.token(kept[0][0]), b" ".join(task for _, task in kept))

    def _name_tokens(self) -> dict[int, int]:
        ghost = self._ghost
        fence = _number(self._meta, b"fence")
        known = {fence, ghost.top, *(lease.token for lease in ghost.leases), *(one.token for one in ghost.effects)}
        known |= {one.earlier[0] for one in ghost.effects if one.earlier}
        for one in ghost.decisions:
            known |= {one.token, int(one.answer[2]) if one.task else 0}
        for task in self._tasks:
            known.add(_number(task, b"fencing_token"))
            known.add(int(task.get(b"ended", b"0").partition(b" ")[0]))
            known.add(int(task.get(b"decided", b"0").rpartition(b" ")[2]))
        known.discard(0)
        moved = fence - self._delta * 1000
        if "time" in self._merges:
            moved = max(moved, (START_MS - FAR_MS) * 1000)
        if "tokens" not in self._merges:
            return {token: token - self._delta * 1000 for token in known}
        order = sorted(known)
        first = order.index(fence) if fence in known else -1
        named = {token: moved + place - first for place, token in enumerate(order)}
        for token in order[first + 1 :]:
            # Lost with the last writes: whether it is issued again depends on the clock.
            named[token] = max(named[token], token - self._delta * 1000)
        return named

    def _name_sequences(self, state: State) -> dict[int, int]:
        if "sequences" not in self._merges:
            return {}
        known = {_number(self._meta, b"sequence"), *(_number(task, b"sequence") for task in self._tasks)}
        ready = state.texts.get(INDEXES[b"ready"])
        if ready:
            known |= {score % SEQUENCES for score in scores(ready).values() if score != 1}
        known.discard(0)
        return {sequence: place for place, sequence in enumerate(sorted(known), 1)}

    def _name_owners(self) -> dict[bytes, bytes]:
        workers = self._scope.workers
        if "workers" not in self._merges:
            return {owner: owner for owner in workers}
        found = [lease.owner for lease in self._ghost.leases]
        found += [task[b"lease_owner"] for task in self._tasks if b"lease_owner" in task]
        rest = sorted(workers, key=lambda owner: -len(self._ghost.recorded[workers.index(owner)]))
        order = list(dict.fromkeys([*found, *rest]))
        return {owner: workers[place] for place, owner in enumerate(order)}

    def _name_nonces(self) -> dict[bytes, bytes]:
        if "nonces" not in self._merges:
            return {}
        named = {b"d%d" % (number + 1): b"d0" for number in range(self._ghost.decided)}
        for place, one in enumerate(self._ghost.decisions, 1):
            nonce = next(arg for arg in one.args if arg in named)
            named[nonce] = b"d%d" % place
        return named

    def _name_requests(self, position: int) -> dict[int, int]:
        last, recorded = self._ghost.requests[position], self._ghost.recorded[position]
        if "requests" not in self._merges:
            return {number: number for number in range(1, last + 1)} | {0: 0}
        return {request: place for place, request in enumerate(recorded, 1)} | {0: 0}
