"""The workers of the demonstration, each a process of its own: `python -m redislease.demo.worker ROLE QUEUE LEDGER`.

A worker says what it did in lines of JSON on its standard output. Where a real worker would wait for something slow, it
waits for a line on its standard input; the end of that ends it. The server's URL comes in `REDISLEASE_URL`, because
anybody on the machine can read a command line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from redislease.commands import claim as claiming
from redislease.demo.record import ACCEPTED
from redislease.demo.resource import Ledger, StaleToken
from redislease.errors import LeaseLost
from redislease.lease import Lease
from redislease.queue import Queue

CLAIM_WAIT_S = 10.0
LONG_LEASE_S = 30.0
REPORT = "report"
PAYMENT = "payment"


def say(event: str, **values: Any) -> None:
    """Tells the director what happened."""
    print(json.dumps({"event": event, **values}), flush=True)


def wait_for_news() -> bool:
    """Waits for what the work depends on; False when there will be none any more."""
    return sys.stdin.readline() != ""


def attempt(what: str, act: Callable[[], object]) -> tuple[str, str]:
    """Tries something and answers what it was and how it went: `accepted`, or the reason of the refusal."""
    try:
        act()
    except LeaseLost as lost:
        return what, lost.reason
    except StaleToken:
        return what, "stale token"
    return what, ACCEPTED


def take(queue: Queue) -> Lease:
    """Claims one task."""
    leases = queue.claim(1, wait=CLAIM_WAIT_S)
    if not leases:
        raise SystemExit("there was no task to claim")
    return leases[0]


def everything(queue: Queue, lease: Lease, ledger: Ledger) -> list[tuple[str, str]]:
    """Everything that a worker could do with a lease, whether it still has it or not."""

    def claim_again() -> None:
        # The same request number as its first claim: what a client sends when it never saw the reply.
        if not queue.run(claiming.claim(lease.owner, 1)).grants:
            raise LeaseLost("nothing is held")

    return [
        attempt("renew", lease.renew),
        attempt("repeat its claim", claim_again),
        attempt("progress", lambda: lease.progress(2, 2)),
        attempt("write to the resource", lambda: ledger.write(REPORT, lease.fencing_token, "by worker A, too late")),
        attempt("complete", lambda: lease.complete({"by": "worker A"})),
        attempt("overwrite: complete with another result", lambda: lease.complete({"by": "worker A", "again": True})),
        attempt("fail", lambda: lease.fail("worker A gave up")),
        attempt("release", lease.release),
    ]


def stalling(queue: Queue, ledger: Ledger) -> None:
    """Worker A: begins, waits for a slow answer, and goes on as if nothing had happened in between."""
    if not wait_for_news():
        return
    lease = take(queue)
    with queue.keep_alive(lease):
        tried = [
            attempt("progress", lambda: lease.progress(1, 2)),
            attempt("write to the resource", lambda: ledger.write(REPORT, lease.fencing_token, "by worker A, half")),
        ]
        say("claimed", handle=lease.handle(), tried=tried)
        while wait_for_news():
            say("went on", tried=everything(queue, lease, ledger), locally=lease.lost_reason or "held")


def succeeding(queue: Queue, ledger: Ledger) -> None:
    """Worker B: takes the task over and finishes it; later it looks for more."""
    if not wait_for_news():
        return
    lease = take(queue)
    with queue.keep_alive(lease):
        tried = [
            attempt("renew", lambda: lease.renew(LONG_LEASE_S)),
            attempt("write to the resource", lambda: ledger.write(REPORT, lease.fencing_token, "by worker B")),
        ]
        say("claimed", handle=lease.handle(), tried=tried)
        if not wait_for_news():
            return
    tried = [
        attempt("progress", lambda: lease.progress(2, 2)),
        attempt("complete", lambda: lease.complete({"by": "worker B"})),
        attempt("send complete again, as if its reply had been lost", lambda: lease.complete({"by": "worker B"})),
        attempt("fail what it has completed", lambda: lease.fail("worker B changed its mind")),
    ]
    say("finished", tried=tried)
    while wait_for_news():
        say("looked", found=len(queue.claim(1)))


def paying(queue: Queue, ledger: Ledger) -> None:
    """Worker C: pays, and never gets to say so."""
    if not wait_for_news():
        return
    lease = take(queue)
    tried = [attempt("pay", lambda: ledger.write(PAYMENT, lease.fencing_token, "paid"))]
    say("claimed", handle=lease.handle(), tried=tried)
    wait_for_news()


ROLES = {"A": stalling, "B": succeeding, "C": paying}


def main() -> None:
    """Runs one worker."""
    role, queue_name, ledger = sys.argv[1:]
    with Queue(queue_name, worker_name=f"demo-{role}") as queue:
        say("ready")
        ROLES[role](queue, Ledger(Path(ledger)))


if __name__ == "__main__":
    main()
