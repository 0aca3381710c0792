"""The normal form of a state: one state for all that differ only in what no later call can depend on.

Dates, counters and evidence that only people read are dropped. Moments are moved so that now is always the same, and
the far past is one moment. Tokens, sequences, request numbers and nonces are numbered anew in their order, workers in
the order in which they appear. The search goes on from the normal form, so equal states are equal byte for byte.
`tests/test_explore.py` explores a small world with and without each kind of merging and compares.
"""

from __future__ import annotations

import hashlib
import marshal
from functools import lru_cache

from .ghost import Decision, Effect, Ghost, Lease
from .model import NEVER_SWEPT
from .naming import FAR_MS, Naming
from .texts import (
    AUDIT,
    BASE,
    EFFECTS,
    EMPTY_LOG,
    EVIDENCE,
    INDEXES,
    META,
    ORPHANS,
    TASK,
    UNSETTLED,
    WORKER,
    effect_record,
    expiry,
    fields,
    items,
    kind_of,
    scores,
    text_of,
)
from .view import START_MS, Scope, State

WORKERS = BASE + b"workers"
ONLY_READ = frozenset(
    (
        *(
            b"created_at",
            b"first_renewal_at",
            b"longest_gap_ms",
            b"last_error",
            b"attempts",
        ),
        *(b"releases", b"decided_by", b"result_ref"),
    )
)
OF_META = frozenset((b"layout", b"fence", b"sequence", b"pause", b"epoch", b"pause_nonce", b"paused_epoch"))
MOMENTS = frozenset((b"lease_expires_at", b"claimed_at", b"renewed_at"))
INDEX_OF = {key: status for status, key in INDEXES.items()}
REMEMBERED = 500_000
PIECES = ("read", "time", "tokens", "sequences", "requests", "workers", "nonces")
"""The kinds of merging, by name."""


@lru_cache(1 << 16)
def in_order(text: bytes) -> bytes:
    """The same value with its fields or members in the order of their names."""
    if text[:1] not in b"hz":
        return text
    flat = items(text)
    pairs = sorted(zip(flat[::2], flat[1::2], strict=True))
    return text_of(kind_of(text), *(part for pair in pairs for part in pair), ttl=expiry(text))


def hash_text(stored: dict[bytes, bytes]) -> bytes:
    """The text of a hash, in the order of its fields."""
    return text_of("hash", *(part for pair in sorted(stored.items()) for part in pair))


def digest(state: State) -> bytes:
    """Sixteen bytes that stand for a state in normal form."""
    form = (sorted(state.texts.items()), state.now, state.ghost.plain())
    return hashlib.blake2b(marshal.dumps(form, 2), digest_size=16).digest()


class Normal:
    """Makes normal forms.

    Args:
        scope: What is explored.
        without: Kinds of merging to leave out.
    """

    def __init__(self, scope: Scope, *, without: frozenset[str] = frozenset()) -> None:
        assert without <= set(PIECES)
        self.scope = scope
        self.merges = frozenset(PIECES) - without
        self._signatures: dict[object, int] = {}
        self._known: dict[tuple[int, bytes, bytes], tuple[bytes, bytes]] = {}

    def __call__(self, state: State) -> State:
        """The normal form of a state."""
        naming = Naming(self.scope, state, self.merges)
        signature = naming.signature()
        number = self._signatures.setdefault((state.now, signature), len(self._signatures))
        texts = {}
        for key, text in state.texts.items():
            known = self._known.get((number, key, text))
            if known is None:
                known = self._known[number, key, text] = self._named(naming, state.now, key, text)
            if known[1]:
                texts[known[0]] = known[1]
        if len(self._known) > REMEMBERED:
            self._known.clear()
            self._signatures.clear()
        return State(texts, naming.moment(state.now), self._ghost(naming, state.ghost))

    def _named(self, naming: Naming, now: int, key: bytes, text: bytes) -> tuple[bytes, bytes]:
        if key.startswith(WORKER):
            owner = key.removeprefix(WORKER)
            return WORKER + naming.owner(owner), self._worker(naming, now, owner, text)
        return key, self._text(naming, now, key, text)

    def _text(self, naming: Naming, now: int, key: bytes, text: bytes) -> bytes:
        if key.startswith(TASK) and kind_of(text) == "hash":
            return self._task(naming, text)
        if key == META:
            return self._meta(naming, text)
        if key in INDEX_OF:
            return self._index(naming, INDEX_OF[key], text)
        if key.startswith(EFFECTS):
            return hash_text({name: self._effect(naming, field) for name, field in fields(text).items()})
        if "read" in self.merges:
            if key == AUDIT:
                return b""
            if key in (UNSETTLED, ORPHANS, WORKERS):
                score = b"%d" % naming.moment(now)
                return text_of("zset", *(part for member in sorted(scores(text)) for part in (member, score)))
            if key.startswith(EVIDENCE):
                ttl = expiry(text)
                return EMPTY_LOG if ttl is None else text_of("list", b"-", ttl=naming.moment(ttl))
        return in_order(text)

    def _task(self, naming: Naming, text: bytes) -> bytes:
        stored = dict(fields(text))
        if "read" in self.merges:
            for name in ONLY_READ & stored.keys():
                del stored[name]
            if stored[b"status"] != b"leased":
                stored.pop(b"renewed_at", None)
            if b"renewed_at" in stored:
                stored[b"renewals"] = b"1"  # how often does not matter, and that it was renewed does
            else:
                stored.pop(b"renewals", None)
            if stored[b"status"] != b"leased" or b"renewed_at" in stored:
                stored.pop(b"claimed_at", None)
        for name in MOMENTS & stored.keys():
            stored[name] = b"%d" % naming.moment(int(stored[name]))
        if b"runtime_deadline" in stored:
            deadline, expires = int(stored[b"runtime_deadline"]), int(fields(text)[b"lease_expires_at"])
            stored[b"runtime_deadline"] = b"%d" % naming.deadline(deadline, expires)
        if b"fencing_token" in stored:
            stored[b"fencing_token"] = b"%d" % naming.token(int(stored[b"fencing_token"]))
            stored[b"lease_owner"] = naming.owner(stored[b"lease_owner"])
        if b"sequence" in stored:
            stored[b"sequence"] = b"%d" % naming.sequence(int(stored[b"sequence"]))
        if b"ended" in stored:
            token, verb, to, detail = stored[b"ended"].split(b" ")
            stored[b"ended"] = b"%d %b %b %b" % (naming.token(int(token)), verb, to, naming.detail(detail))
        if b"decided" in stored:
            nonce, verb, at, to, token = stored[b"decided"].split(b" ")
            at = b"1" if "read" in self.merges else b"%d" % naming.moment(int(at))
            told = (naming.nonce(nonce), verb, at, to, naming.token(int(token)))
            stored[b"decided"] = b"%b %b %b %b %d" % told
        return hash_text(stored)

    def _effect(self, naming: Naming, field: bytes) -> bytes:
        record = effect_record(field)
        if "read" in self.merges:
            record = record._replace(opened_at=b"1", closed_at=b"0", name=b"")
        if record.late:
            verdict, at, token, outcome = record.late.split(b" ", 3)
            at, outcome = (b"1", b"") if "read" in self.merges else (at, outcome)
            record = record._replace(late=b"%b %b %d %b" % (verdict, at, naming.token(int(token)), outcome))
        left_open_by = record.left_open_by.split(b",")[0]
        for token, nonce in [record.earlier()] if record.earlier() else []:
            left_open_by += b",%d,%b" % (naming.token(token), nonce)
        return record._replace(token=b"%d" % naming.token(int(record.token)), left_open_by=left_open_by).text()

    def _meta(self, naming: Naming, text: bytes) -> bytes:
        stored = dict(fields(text))
        if "read" in self.merges:
            stored = {name: value for name, value in stored.items() if name in OF_META}
        if b"fence" in stored:
            stored[b"fence"] = b"%d" % naming.token(int(stored[b"fence"]))
        if b"sequence" in stored:
            stored[b"sequence"] = b"%d" % naming.sequence(int(stored[b"sequence"]))
        if b"pause_nonce" in stored:
            stored[b"pause_nonce"] = naming.nonce(stored[b"pause_nonce"])
        return hash_text(stored)

    def _index(self, naming: Naming, status: bytes, text: bytes) -> bytes:
        members = scores(text)
        found: dict[bytes, int] = {}
        for member in sorted(members, key=lambda member: (members[member], member)):
            score = members[member]
            if score in (1, NEVER_SWEPT):
                found[member] = score
            elif status in (b"ready", b"approved"):
                found[member] = naming.place(score)
            elif status == b"reconciling" and "read" in self.merges:
                found[member] = START_MS
            else:
                found[member] = naming.moment(score)
        if status == b"scheduled":
            _keep_apart(found)
        return text_of("zset", *(part for member in sorted(found) for part in (member, b"%d" % found[member])))

    def _worker(self, naming: Naming, now: int, owner: bytes, text: bytes) -> bytes:
        stored = dict(fields(text))
        if "read" in self.merges:
            stored = {b"registered_at": b"1", b"seen_at": b"%d" % naming.moment(now)}
        for slot, record in fields(text).items():
            if slot.startswith(b"claim:"):
                stored.pop(slot, None)
                kept = naming.claim_record(owner, record)
                if kept:
                    stored[b"claim:%d" % (int(kept.split(b" ")[0]) % 16)] = kept
        return hash_text(stored)

    def _ghost(self, naming: Naming, ghost: Ghost) -> Ghost:
        requests, recorded = naming.requests(ghost)
        return ghost._replace(
            leases=tuple(self._lease(naming, lease) for lease in ghost.leases),
            top=naming.token(ghost.top),
            high=naming.moment(ghost.high),
            lost_at=naming.lost_at(ghost),
            requests=requests,
            recorded=recorded,
            effects=tuple(_effect(naming, one) for one in ghost.effects),
            decisions=tuple(self._decision(naming, one) for one in ghost.decisions),
            decided=len(ghost.decisions) if "nonces" in self.merges else ghost.decided,
        )

    def _lease(self, naming: Naming, lease: Lease) -> Lease:
        settled = lease.settled
        if settled:
            settled = (*settled[:3], naming.detail(settled[3]))
        return lease._replace(
            owner=naming.owner(lease.owner),
            token=naming.token(lease.token),
            request=naming.request(lease.owner, lease.request),
            expires=naming.moment(lease.expires) if lease.expires else 0,
            renewed=naming.moment(lease.renewed) if lease.renewed else 0,
            cap=naming.deadline(lease.cap, lease.expires) if lease.cap else 0,
            settled=settled,
        )

    def _decision(self, naming: Naming, one: Decision) -> Decision:
        token = b"%d" % one.token
        args = tuple(
            b"%d" % naming.token(one.token) if one.token and arg == token else naming.nonce(arg) for arg in one.args
        )
        answer = one.answer
        if one.task:
            answer = (*answer[:2], b"%d" % naming.token(int(answer[2])))
        return one._replace(args=args, token=naming.token(one.token), answer=answer)


def _effect(naming: Naming, one: Effect) -> Effect:
    earlier = (naming.token(one.earlier[0]), one.earlier[1]) if one.earlier else ()
    return one._replace(token=naming.token(one.token), earlier=earlier)


def _keep_apart(members: dict[bytes, int]) -> None:
    """Members of the far past keep their order, in which they were given."""
    far = [member for member, score in members.items() if score == START_MS - FAR_MS]
    for place, member in enumerate(far):
        members[member] -= len(far) - 1 - place
