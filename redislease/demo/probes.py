"""Calls with a lease that may be somebody else's, older or made up: what a confused program would send."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from redislease.commands import hold, settle
from redislease.commands.call import Call
from redislease.demo.record import ACCEPTED
from redislease.errors import LeaseLost
from redislease.handle import Handle
from redislease.models import Lost
from redislease.queue import Queue

_FORGED_RESULT = json.dumps({"by": "a probe"}).encode()

VERBS: dict[str, Callable[[Handle], Call[Any]]] = {
    "renew": lambda handle: hold.renew([(handle, None)]),
    "progress": lambda handle: hold.progress(handle, 99, 1),
    "complete": lambda handle: settle.complete([settle.Completion(handle, _FORGED_RESULT)]),
    "fail": lambda handle: settle.fail([settle.Failure(handle, "a probe")]),
    "release": lambda handle: settle.release([settle.Return(handle)]),
}
"""The verbs of a worker, as the commands that are sent for them."""


def probe(queue: Queue, verb: str, handle: Handle) -> str:
    """Sends a verb with a handle; answers `accepted`, or the reason of the refusal."""
    try:
        reply = queue.run(VERBS[verb](handle))
    except LeaseLost as lost:
        return lost.reason
    answers = reply[0] if verb == "complete" else reply
    return answers[0].reason if isinstance(answers[0], Lost) else ACCEPTED
