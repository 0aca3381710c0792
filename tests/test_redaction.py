"""The redaction hook: no text leaves the process before it, and its own failures lose no report."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from both import Both
from losing import dump
from servers import Engine
from virtual_clock import VirtualClock

from redislease import AsyncQueue, ConfigurationError, InvalidInput, NotDone, Queue
from redislease.keys import QueueKeys
from redislease.scripts import ScriptLibrary

pytestmark = pytest.mark.contract

SECRET = "hunter2-hunter2"


def hide(text: str) -> str:
    return re.sub(r"hunter2\S*", "***", text)


@pytest.fixture
def redacting(
    engine: Engine, both: Both, queue_name: str, library: ScriptLibrary, clock: VirtualClock
) -> Iterator[Callable[..., Any]]:
    """Opens the test's queue with a hook."""
    opened: list[Any] = []

    def make(hook: Any) -> Any:
        queue = both.pick(Queue, AsyncQueue)(queue_name, redis_url=engine.url, scripts=library, redact=hook)
        opened.append(queue)
        return queue

    yield make
    for queue in opened:
        queue.close()


def leased(queue: Any) -> Any:
    queue.enqueue("mail", side_effect="idempotent", records_effects=True)
    (lease,) = queue.claim()
    return lease


def act(queue: Any) -> str:
    """Everything in which a text of a handler can leave; answers the task's id."""
    lease = leased(queue)
    lease.progress(1, 2, f"logged in with {SECRET}")
    with lease.effect("one") as effect:
        effect.not_done(f"refused {SECRET}")
    with pytest.raises(NotDone), lease.effect("two"):
        raise NotDone(f"refused {SECRET}")
    lease.fail(ValueError(f"password={SECRET} " + "x" * 8_170 + SECRET), delay=0)
    (again,) = queue.claim()
    again.fail(f"plain {SECRET}", delay=0)
    with pytest.raises(RuntimeError), queue.claim_one():
        raise RuntimeError(SECRET)
    return lease.id


def test_nothing_is_sent_before_it(
    redacting: Callable[..., Any], redis_client: redis.Redis, keys: QueueKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even the half of a secret that stands where the text is cut."""
    queue = redacting(hide)
    task_id = act(queue)
    assert b"hunter" not in repr(dump(redis_client, keys.base)).encode()
    errors = [line["error"] for line in queue.evidence(task_id) if "error" in line]
    assert errors[0].startswith("ValueError: password=*** xxx")
    assert errors[1:] == ["plain ***", "RuntimeError: ***"]
    assert queue.get(task_id).last_error == "RuntimeError: ***"
    assert queue.detail(task_id).progress["note"] == "logged in with ***"
    assert [one.reason for one in queue.effects(task_id)] == ["refused ***", "refused ***"]


def fail_loudly(text: str) -> str:
    raise KeyError(text)


@pytest.mark.parametrize("hook", [fail_loudly, lambda text: None, lambda text: text.encode(), lambda: ""])
def test_a_hook_that_fails_loses_no_report_and_tells_no_secret(
    redacting: Callable[..., Any],
    redis_client: redis.Redis,
    keys: QueueKeys,
    hook: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = redacting(hook)
    with caplog.at_level(logging.WARNING, "redislease.redaction"):
        task_id = act(queue)
    assert b"hunter" not in repr(dump(redis_client, keys.base)).encode()
    assert "hunter" not in caplog.text
    assert len(caplog.records) == 6
    assert [line["error"] for line in queue.evidence(task_id) if "error" in line] == [
        "ValueError",
        "(withheld)",
        "RuntimeError",
    ]
    assert queue.get(task_id).failures == 3


def test_an_error_that_cannot_even_be_written(queue: Any) -> None:
    """Without a hook as with one: a failure is recorded whatever its exception does."""

    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    lease = leased(queue)
    assert lease.fail(Unspeakable()).status == "scheduled"
    assert queue.get(lease.id).last_error == "Unspeakable"


def test_texts_have_their_limits_behind_it(redacting: Callable[..., Any]) -> None:
    queue = redacting(lambda text: text * 3)
    lease = leased(queue)
    lease.progress(1, note="n" * 1_024)
    with pytest.raises(InvalidInput):
        lease.progress(1, note="n" * 1_025)
    with pytest.raises(InvalidInput):
        lease.progress(1, note=5)
    with lease.effect("pay") as effect:
        effect.not_done("r" * 1_024)
    lease.fail("e" * 8_192)
    assert len(queue.detail(lease.id).progress["note"]) == 1_024
    assert len(queue.effects(lease.id)[0].reason) == 1_024
    assert len(queue.evidence(lease.id)[-1]["error"]) == 8_192


def test_the_same_error_is_the_same_behind_it(redacting: Callable[..., Any]) -> None:
    """What differs only in what is hidden is one error: nothing of the secret is in the fingerprint."""
    queue = redacting(hide)
    queue.enqueue("work", side_effect="idempotent", max_same_error=2)
    assert queue.claim()[0].fail("no hunter2-a", delay=0).status == "scheduled"
    assert queue.claim()[0].fail("no hunter2-b", delay=0).status == "dead"


def test_a_hook_that_is_none(both: Both) -> None:
    for hook in ("hide", 5):
        with pytest.raises(ConfigurationError):
            both.pick(Queue, AsyncQueue)("q", redis_url="redis://127.0.0.1:1", redact=hook)
