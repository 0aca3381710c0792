"""Why a call with a lost lease is refused: section 5 of the design, first match."""

from __future__ import annotations

from .ghost import Lease
from .model import expiry_cause, number
from .texts import META
from .view import View

SETTLING = (b"complete", b"fail", b"release")


def reason(view: View, lease: Lease, verb: bytes) -> bytes:
    """The reason that a caller must be told who presents this lease and does not hold it."""
    task = view.task(lease.task)
    if task is None:
        return b"unknown"
    if lease.token > number(view.hash(META), b"fence"):
        return b"not_issued"
    mine = number(task, b"fencing_token") == lease.token
    if mine and (task[b"lease_owner"], number(task, b"claim_generation")) != (lease.owner, lease.generation):
        return b"not_owner"
    ended, _, further = task.get(b"ended", b"0 - ").partition(b" ")
    how = further.partition(b" ")[0]
    named = int(ended) == lease.token
    if named and how in SETTLING:
        return b"replay" if how == verb else b"settled"
    leased = task[b"status"] == b"leased"
    if leased and not mine:
        return b"reclaimed"
    if named:
        return how
    return expiry_cause(task).encode() if leased else b"superseded"


def refusal(view: View, lease: Lease, verb: bytes) -> tuple[bytes, ...]:
    """The whole answer of a refusal: the reason, and how the task stands now."""
    task = view.task(lease.task)
    if task is None:
        return b"lost", b"unknown", b"", b""
    return b"lost", reason(view, lease, verb), task[b"status"], b"%d" % number(task, b"claim_generation")
