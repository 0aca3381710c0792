"""Effects in the hands of users: what they raise, return, share and put around each other."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest
from leasing import leased
from virtual_clock import VirtualClock

from redislease import EffectError, NotAllowedNow, NotDone, QueuePaused
from redislease.commands.effects import request_digest


def states(queue: Any, task_id: str) -> dict[str, str]:
    return {record.key: record.state for record in queue.effects(task_id)}


class TestRaising:
    """What leaves the action of an effect."""

    def test_not_done_speaks_of_the_innermost_effect(self, queue: Any) -> None:
        lease = leased(queue, "non_idempotent")

        def inner(effect: Any) -> None:
            raise NotDone("no route")

        with pytest.raises(NotDone), lease.effect("charge"):
            lease.run_effect("notify", inner)
        assert states(queue, lease.id) == {"charge": "open", "notify": "not_done"}
        assert lease.fail("no route").status == "reconciling"

    def test_a_reason_that_cannot_be_shown(self, queue: Any) -> None:
        class Mute(NotDone):
            def __str__(self) -> str:
                raise RuntimeError

        def action(effect: Any) -> None:
            raise Mute

        lease = leased(queue)
        with pytest.raises(Mute):
            lease.run_effect("pay", action)
        assert states(queue, lease.id) == {"pay": "not_done"}

    @pytest.mark.parametrize(("inside", "to"), [(False, "scheduled"), (True, "reconciling")])
    def test_out_of_a_handler_it_speaks_of_the_attempt(self, queue: Any, inside: bool, to: str) -> None:
        """Unless it was about an effect: that one alone did not happen."""
        task_id = queue.enqueue("pay", side_effect="non_idempotent").id
        with pytest.raises(NotDone), queue.claim_one() as lease:
            if inside:
                with lease.effect("pay"):
                    raise NotDone("no route")
            raise NotDone("no route")
        assert queue.get(task_id).status == to

    @pytest.mark.parametrize("attempts", [1, 5])
    def test_a_pause_is_no_failure_of_a_block(self, queue: Any, clock: VirtualClock, attempts: int) -> None:
        task_id = queue.enqueue("pay", side_effect="idempotent", records_effects=True, max_attempts=attempts).id
        with pytest.raises(QueuePaused), queue.claim_one() as lease:
            queue.pause("effects", by="ops")
            lease.run_effect("pay", lambda effect: 1)
        task = queue.get(task_id)
        assert (task.status, task.failures, task.available_at) == ("scheduled", 0, clock.now_ms + 5_000)


class TestReturning:
    """What an action answers."""

    def test_one_that_has_recorded_by_itself(self, queue: Any) -> None:
        lease = leased(queue)
        assert lease.run_effect("pay", lambda effect: effect.record((1, 2))) == [1, 2]

    def test_what_is_too_large_to_keep_comes_back_as_json_too(self, queue: Any) -> None:
        assert leased(queue).run_effect("pay", lambda effect: ("x" * 20_000, 1)) == ["x" * 20_000, 1]

    def test_an_outcome_that_breaks_while_it_is_written(self, queue: Any) -> None:
        @dataclass
        class Half:
            __slots__ = ("missing",)
            missing: int

        lease = leased(queue)
        half = object.__new__(Half)
        assert lease.run_effect("pay", lambda effect: half) is half
        (record,) = queue.effects(lease.id)
        assert (record.state, record.not_stored["type"]) == ("done", "Half")


class TestSharing:
    """One effect in several hands."""

    def test_it_is_begun_once_by_however_many_threads(self, queue: Any) -> None:
        effect = leased(queue).effect("pay")
        begun, refused = [], []
        together = threading.Barrier(8)

        def enter() -> None:
            together.wait()
            try:
                begun.append(effect.__enter__())
            except EffectError:
                refused.append(1)

        threads = [threading.Thread(target=enter) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(begun), len(refused)) == (1, 7)


class TestRequests:
    """The texts of requests."""

    def test_equal_sets_have_one_digest_in_every_process(self) -> None:
        tags = {"red", "green", "blue", "black"}
        code = f"from redislease.commands.effects import request_digest as d; print(d({{'tags': {tags!r}}}))"
        told = {
            subprocess.run(
                [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
            ).stdout
            for seed in ("1", "2", "3")
        }
        assert told == {request_digest({"tags": tags}) + "\n"}

    def test_a_key_that_is_an_enum_is_its_text(self, queue: Any) -> None:
        class Kind(str, Enum):  # noqa: UP042 - the older form, which prints its name
            FIRST = "first"

        queue.enqueue("work", {Kind.FIRST: 1, "kind": Kind.FIRST}, side_effect="read_only")
        (lease,) = queue.claim()
        assert lease.payload == {"first": 1, "kind": "first"}


class TestDeciding:
    """Operators, and those who read."""

    def test_a_task_that_has_ended_is_not_resolved_by_nothing(self, queue: Any) -> None:
        lease = leased(queue)
        with pytest.raises(ZeroDivisionError), lease.effect("pay"):
            1 / 0  # noqa: B018
        lease.complete()
        with pytest.raises(NotAllowedNow):
            queue.resolve(lease.id, "done", by="ops")
        assert queue.resolve(lease.id, "done", by="ops", effects={"pay": "not_done"}).status == "completed"

    @pytest.mark.broken_keys
    def test_a_foreign_key_does_not_hide_the_log(self, queue: Any, redis_client: Any, keys: Any) -> None:
        lease = leased(queue)
        lease.complete()
        redis_client.set(keys.effects(lease.id), "foreign")
        assert [line["event"] for line in queue.evidence(lease.id)] == ["completed", "unreadable"]
        redis_client.delete(keys.effects(lease.id))
