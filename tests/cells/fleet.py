"""A member of a fleet: a process that holds a batch of leases, each at another point of its effect."""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing.connection import Connection

from cells.worker import PROCESSES, WAIT_S, Place, open_queue
from redislease import Lease, Queue

Held = dict[str, list[str]]
"""Task ids by how far the member has come with them."""

HOW_FAR = ("idle", "idle", "idle", "idle", "idle", "begun", "begun", "happened", "happened", "recorded")
"""What becomes of every ten tasks: half are only claimed; two may and two do happen unrecorded; one is recorded."""


def take_up(lease: Lease, place: Place, how_far: str) -> None:
    """Works on a task up to a point."""
    if how_far == "idle":
        return
    effect = lease.effect("act", request={"order": 5})
    effect.__enter__()
    if how_far == "begun":
        return
    receipt = place.world.call("mail", lease.id, effect.headers)
    if how_far == "recorded":
        effect.record(receipt)


def hold(queue: Queue, place: Place, amount: int) -> tuple[list[Lease], Held]:
    """Claims a batch and takes up each task."""
    leases = queue.claim(amount)
    held: Held = {how_far: [] for how_far in HOW_FAR}
    for number, lease in enumerate(leases):
        how_far = HOW_FAR[number % len(HOW_FAR)]
        take_up(lease, place, how_far)
        held[how_far].append(lease.id)
    return leases, held


def _work(pipe: Connection, place: Place, amount: int) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with open_queue(place, "member") as queue:
        leases, held = hold(queue, place, amount)
        try:
            pipe.send(held)
            pipe.recv()
        except SystemExit:
            for lease in leases:
                lease.release(interrupted=True)
            raise


class Member:
    """A member as its test holds it.

    Args:
        place: Where it works.
        amount: How many tasks it claims.
    """

    def __init__(self, place: Place, amount: int) -> None:
        self._pipe, theirs = PROCESSES.Pipe()
        self._process = PROCESSES.Process(target=_work, args=(theirs, place, amount), daemon=True)
        self._process.start()
        theirs.close()

    def held(self) -> Held:
        """Waits until it holds its batch, and says how far it has come with each task."""
        assert self._pipe.poll(WAIT_S), "the member says nothing"
        held: Held = self._pipe.recv()
        return held

    def send(self, number: signal.Signals) -> None:
        """Sends a signal."""
        assert self._process.pid
        os.kill(self._process.pid, number)

    def join(self) -> int:
        """Waits for its end, and answers its exit code."""
        self._process.join(WAIT_S)
        assert self._process.exitcode is not None
        return self._process.exitcode

    def close(self) -> None:
        """Ends what is left of it."""
        self._process.kill()
        self._process.join(WAIT_S)
        self._process.close()
        self._pipe.close()
