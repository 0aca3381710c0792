"""What a person decides about effects in doubt."""

from __future__ import annotations

from typing import Any

import pytest
from leasing import leased
from virtual_clock import VirtualClock

from redislease import (
    Done,
    InvalidInput,
    NotAllowedNow,
)

pytestmark = pytest.mark.contract


class TestResolving:
    def doubtful(self, queue: Any) -> Any:
        lease = leased(queue, "non_idempotent")
        lease.run_effect("read", lambda e: "page")
        for key in ("mail", "charge"):
            with pytest.raises(ZeroDivisionError), lease.effect(key):
                1 / 0  # noqa: B018
        assert lease.fail("x").status == "reconciling"
        return lease

    def test_each_effect_is_decided_and_the_next_attempt_reads_it(self, queue: Any) -> None:
        lease = self.doubtful(queue)
        with pytest.raises(NotAllowedNow):
            queue.resolve(lease.id, "retry", by="ops", effects={"mail": "not_done"})
        found = {"mail": Done({"message": 5}), "charge": "not_done"}
        assert queue.resolve(lease.id, "retry", by="ops", effects=found).status == "ready"
        (later,) = queue.claim()
        assert later.run_effect("read", lambda e: 1 / 0) == "page"
        assert later.run_effect("mail", lambda e: 1 / 0) == {"message": 5}
        assert later.run_effect("charge", lambda e: "charged") == "charged"
        later.complete()
        assert queue.get(lease.id).open_effects == 0

    def test_an_effect_that_does_not_exist(self, queue: Any) -> None:
        lease = self.doubtful(queue)
        for stranger in ("nothing", "read", "handler"):
            with pytest.raises(InvalidInput, match=stranger):
                queue.resolve(lease.id, "done", by="ops", effects={"mail": "done", stranger: "done"})
        assert queue.get(lease.id).open_effects == 2

    def test_a_completion_with_open_effects_is_unsettled(self, queue: Any, clock: VirtualClock) -> None:
        lease = leased(queue, "idempotent")
        with pytest.raises(ZeroDivisionError), lease.effect("pay"):
            1 / 0  # noqa: B018
        settled = lease.complete("anyway")
        assert (settled.status, settled.open_effects) == ("completed", 1)
        assert [task.id for task in queue.tasks("unsettled")] == [lease.id]
        queue.resolve(lease.id, "done", by="ops", effects={"pay": "done"})
        assert queue.tasks("unsettled") == []


def test_an_effect_and_the_implicit_one(queue: Any, clock: VirtualClock) -> None:
    """A task that does not promise to record its effects is in doubt as a whole, whatever it records."""
    lease = leased(queue, "non_idempotent", records_effects=False)
    lease.run_effect("pay", lambda e: 1)
    assert queue.get(lease.id).open_effects == 1
    clock.advance_ms(60_001)
    queue.reap()
    assert queue.get(lease.id).status == "reconciling"
    queue.resolve(lease.id, "retry", by="ops", effects={"handler": "not_done"})
    (later,) = queue.claim()
    assert later.run_effect("pay", lambda e: 1 / 0) == 1
    later.complete()
    assert queue.get(lease.id).open_effects == 0
