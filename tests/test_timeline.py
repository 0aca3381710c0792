"""Evidence as the events that it tells of: beginnings of effects stand where they happened."""

from __future__ import annotations

import json
from typing import Any

import pytest
from leasing import leased
from virtual_clock import VirtualClock

from redislease import EffectConflict, NotDone, timeline

DIGEST = "0123456789abcdef0123456789abcdef"


def stored(event: str, at: int, **more: Any) -> bytes:
    return json.dumps({"event": event, "at": at, **more}, separators=(",", ":")).encode()


def outcome(at: int, opened_at: int, lease: int, effect: str = "pay") -> bytes:
    about = {
        "effect": effect,
        "generation": lease,
        "token": f"{lease}",
        "name": "pay",
        "digest": DIGEST,
        "again": False,
    }
    return stored("outcome", at, **about, opened_at=opened_at, verdict="done")


def ending(event: str, at: int, lease: int) -> bytes:
    return stored(event, at, to="ready", generation=lease, token=f"{lease}")


def told(events: list[dict[str, Any]]) -> list[tuple[str, int | None]]:
    return [(event["event"], event["at"]) for event in events]


class TestOrder:
    """The order of writing, with each beginning put before what came after it."""

    def test_an_outcome_is_two_events(self) -> None:
        began, ended = timeline.of_task([outcome(20, 10, 1)], {})
        about = {"effect": "pay", "generation": 1, "token": "1", "name": "pay", "digest": DIGEST, "again": False}
        assert began == {"event": "intent", "at": 10} | about
        assert ended == {
            "event": "outcome",
            "at": 20,
            "effect": "pay",
            "generation": 1,
            "token": "1",
            "verdict": "done",
        }

    def test_two_effects_side_by_side(self) -> None:
        lines = [outcome(30, 10, 1, "first"), outcome(40, 20, 1, "second"), ending("completed", 50, 1)]
        assert told(timeline.of_task(lines, {})) == [
            ("intent", 10), ("intent", 20), ("outcome", 30), ("outcome", 40), ("completed", 50),
        ]  # fmt: skip

    def test_it_stands_before_the_end_of_its_lease(self) -> None:
        lines = [ending("expired", 10, 1), stored("intent", 10, effect="pay", token="1")]
        assert told(timeline.of_task(lines, {})) == [("intent", 10), ("expired", 10)]

    def test_also_when_the_clock_stepped_back(self) -> None:
        lines = [ending("failed", 90, 1), outcome(60, 55, 2), ending("completed", 61, 2)]
        assert told(timeline.of_task(lines, {})) == [("failed", 90), ("intent", 55), ("outcome", 60), ("completed", 61)]

    def test_another_task_of_the_same_id_had_the_same_generations(self) -> None:
        lines = [
            ending("completed", 20, 7),
            stored("outcome", 90, generation=1, token="9", opened_at=80, verdict="done"),
        ]
        assert told(timeline.of_task(lines, {})) == [("completed", 20), ("intent", 80), ("outcome", 90)]

    def test_what_was_not_kept_is_told(self) -> None:
        head = b'{"late":0,"dropped":6,"late_calls":[]}'
        assert timeline.of_task([head, ending("completed", 9, 1)], {})[-1] == {
            "event": "not_kept",
            "at": None,
            "lines": 6,
        }

    def test_a_head_is_no_event(self) -> None:
        head = b'{"late":1,"dropped":0,"late_calls":["7 complete"]}'
        assert told(timeline.of_task([head, ending("completed", 9, 1)], {})) == [("completed", 9)]

    def test_a_record_that_cannot_be_read(self) -> None:
        events = timeline.of_task([ending("expired", 9, 1)], {b"pay": b"open nonsense"})
        assert told(events) == [("expired", 9), ("unreadable", None)]


class TestStored:
    """What the server keeps of beginnings."""

    def test_an_open_effect_is_told_from_its_record(self, queue: Any, clock: VirtualClock) -> None:
        lease = leased(queue)
        with pytest.raises(ZeroDivisionError), lease.effect("pay", request=1):
            1 / 0  # noqa: B018
        (only,) = queue.evidence(lease.id)
        assert (only["event"], only["at"], only["effect"]) == ("intent", clock.now_ms, "pay")
        assert only["digest"] == queue.effects(lease.id)[0].digest

    def test_one_that_the_next_attempt_begins_anew(self, queue: Any, clock: VirtualClock) -> None:
        lease = leased(queue)
        with pytest.raises(ZeroDivisionError), lease.effect("pay", request=1):
            1 / 0  # noqa: B018
        clock.advance_ms(5)
        lease.fail("no")
        clock.advance_ms(60_000)
        (again,) = queue.claim()
        again.run_effect("pay", lambda effect: 7, request=1)
        events = queue.evidence(lease.id)
        assert [(line["event"], line.get("generation")) for line in events] == [
            ("intent", 1), ("failed", 1), ("intent", 2), ("outcome", 2),
        ]  # fmt: skip
        assert [line["again"] for line in events if line["event"] == "intent"] == [False, True]

    def test_one_that_an_operator_decides(self, queue: Any, clock: VirtualClock) -> None:
        lease = leased(queue, "non_idempotent")
        with pytest.raises(ZeroDivisionError), lease.effect("pay", request=1):
            1 / 0  # noqa: B018
        clock.advance_ms(60_001)
        queue.reap()
        queue.resolve(lease.id, "done", by="ops", effects={"pay": "not_done"})
        events = [line["event"] for line in queue.evidence(lease.id)]
        assert events == ["intent", "expired", "effects_decided", "resolve"]

    def test_a_try_that_did_not_happen_leaves_an_earlier_one_in_doubt(self, queue: Any, clock: VirtualClock) -> None:
        lease = leased(queue)
        with pytest.raises(ZeroDivisionError), lease.effect("pay", request=1):
            1 / 0  # noqa: B018
        lease.fail("no")
        clock.advance_ms(60_000)
        (again,) = queue.claim()

        def never(effect: Any) -> None:
            assert effect.again
            raise NotDone("no route")

        for _ in range(2):
            with pytest.raises(NotDone):
                again.run_effect("pay", never, request=1)
        (record,) = queue.effects(lease.id)
        assert (record.state, record.generation, queue.get(lease.id).open_effects) == ("open", 1, 1)
        with pytest.raises(EffectConflict):
            again.run_effect("pay", lambda effect: 1, request=2)
        events = [(line["event"], line.get("generation"), line.get("verdict")) for line in queue.evidence(lease.id)]
        assert events == [
            ("intent", 1, None), ("failed", 1, None), ("intent", 2, None), ("outcome", 2, "not_done"),
            ("intent", 2, None), ("outcome", 2, "not_done"),
        ]  # fmt: skip
        assert again.run_effect("pay", lambda effect: 7, request=1) == 7
        assert queue.get(lease.id).open_effects == 0

    def test_tries_of_one_attempt(self, queue: Any) -> None:
        lease = leased(queue)

        def never(effect: Any) -> None:
            raise NotDone("no route")

        for _ in range(2):
            with pytest.raises(NotDone):
                lease.run_effect("pay", never)
        events = [line["event"] for line in queue.evidence(lease.id)]
        assert events == ["intent", "outcome", "intent", "outcome"]
