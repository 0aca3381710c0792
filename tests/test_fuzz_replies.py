"""Whatever a server answers: a typed error or an answer, never an error of Python's own."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from call_samples import CALLS
from fuzzing import NUMBERS, PATIENT, VALUES, fuzzed
from hypothesis import given
from hypothesis import strategies as st

from redislease import Queue, RedisLeaseError, ServerError
from redislease.commands import claim, effects, hold, inspect, operate, settle, sweep
from redislease.commands.call import Call
from redislease.commands.enqueue import EnqueueRequest, enqueue, item
from redislease.commands.replies import groups
from redislease.connection.exchange import CallExchange
from redislease.handle import Handle
from redislease.keys import QueueKeys
from redislease.scripts import shipped

pytestmark = PATIENT

BY_NAME = {f"{number}-{call.script}": call for number, call in enumerate(CALLS)}


@cache
def genuine() -> list[tuple[Call[Any], list[Any]]]:
    """Calls as a server really answers them."""
    found: list[tuple[Call[Any], list[Any]]] = []
    with Queue("replies", redis_url="memory://fuzz-replies", worker_name="w") as queue:

        def send(call: Call[Any]) -> Any:
            raw = queue.run(call._replace(parse=lambda reply: reply, answers=None))
            found.append((call, raw))
            return call.read(raw)

        names = ("a", "b", "c", "d", "e")
        kinds = ("idempotent", "idempotent", "idempotent", "non_idempotent", "idempotent")
        pairs = zip(names, kinds, strict=True)
        send(enqueue([item(EnqueueRequest(name="n", side_effect=kind, task_id=name)) for name, kind in pairs]))
        owner = send(claim.register("w")).name
        grants = send(claim.claim(owner, 1, limit=4)).grants
        a, b, c, d = (Handle("replies", one.id, owner, one.generation, one.token) for one in grants)
        gone = a._replace(id="nobody")
        send(hold.renew([(a, None), (gone, None)]))
        send(hold.progress(a, 1, 1, 2, "half"))
        send(effects.intent([effects.Intent(a, "mail", "n1", "mail", "d"), effects.Intent(gone, "x", "n", "x", "d")]))
        send(effects.outcome([effects.Verdict(a, "mail", "n1", "done", b'{"value":1}')]))
        send(settle.fail([settle.Failure(b, "no", delay_ms=0), settle.Failure(gone, "no")]))
        send(settle.release([settle.Return(c), settle.Return(gone)]))
        send(settle.complete([settle.Completion(a), settle.Completion(gone)], settle.NextClaim(owner, 2, 1)))
        send(sweep.reap())
        send(operate.revoke("d", d.token, by="op"))
        send(operate.resolve("d", "dead", d.token, by="op", effects={"handler": "not_done"}))
        send(operate.requeue("d", d.token, by="op"))
        send(operate.cancel("d", by="op"))
        send(operate.pause("claims", 0, by="op"))
        send(claim.claim(owner, 3, limit=1))
        send(inspect.stats("replies"))
        send(inspect.check("ready"))
        send(sweep.purge())
        refused: list[Call[Any]] = [
            operate.cancel("d", by="op"),
            operate.pause("claims", 0, by="op"),
            operate.cancel("x", by="op"),
        ]
        for call in refused:
            found.append((call, queue.run(call._replace(parse=lambda reply: reply, answers=None))))
    return found


def read(call: Call[Any], reply: Any) -> Any:
    """What a call makes of a reply; a typed error counts as an answer."""
    try:
        return call.read(reply)
    except RedisLeaseError as refused:
        return refused


@pytest.mark.parametrize("name", BY_NAME)
@given(reply=st.lists(VALUES, max_size=24))
@fuzzed(0.5)
def test_any_reply(name: str, reply: list[Any]) -> None:
    read(BY_NAME[name], reply)


@pytest.mark.parametrize("reply", [None, 0, 1.5, b"ok", "ok", {}, {b"ok": 1}, [], [[]], [None], True], ids=repr)
def test_a_reply_that_is_no_list(reply: Any) -> None:
    for call in CALLS:
        assert isinstance(read(call, reply), RedisLeaseError)


@given(data=st.data(), pick=st.integers(0, 10**6), how=st.sampled_from(("cut", "drop", "put", "twice", "other")))
@fuzzed(4.0)
def test_a_reply_with_one_fault(data: st.DataObject, pick: int, how: str) -> None:
    samples = genuine()
    call, whole = samples[pick % len(samples)]
    where = data.draw(st.integers(0, len(whole) - 1))
    reply = list(whole)
    if how == "cut":
        reply = reply[:where]
    elif how == "drop":
        del reply[where]
    elif how == "put":
        reply.insert(where, data.draw(VALUES))
    elif how == "twice":
        reply.insert(where, reply[where])
    else:
        reply[where] = data.draw(VALUES)
    answer = read(call, reply)
    if isinstance(answer, list):
        # Whoever reads these counts on one for each thing that was sent.
        assert len(answer) == len(read(call, whole))


def test_the_genuine_ones_are_read() -> None:
    for call, whole in genuine()[:-3]:
        call.read(whole)


@given(reply=st.lists(VALUES, max_size=6))
@fuzzed()
def test_another_layout(reply: list[Any]) -> None:
    call = CALLS[0]
    exchange = CallExchange([call], keys=QueueKeys("q"), library=shipped(), where="here")
    exchange.commands()
    exchange.accept([[b"layout", *reply]])
    assert isinstance(exchange.outcomes[0], RedisLeaseError)


@given(length=st.integers(0, 40), first=st.integers(0, 10), width=NUMBERS, count=st.one_of(st.none(), NUMBERS))
@fuzzed()
def test_groups_are_whole_and_counted(length: int, first: int, width: int, count: int | None) -> None:
    try:
        found = list(groups(list(range(length)), first, width, count))
    except ServerError:
        return
    assert [value for group in found for value in group] == list(range(first, length))
    assert all(len(group) == width for group in found)
    assert count in (None, len(found))
