"""What the tests of shared calls have in common: a way on which calls are counted, and handlers that meet."""

from __future__ import annotations

import asyncio
from collections import Counter

from proxy import Proxy

from redislease import Queue
from redislease.scripts import shipped


class Link:
    """The way of a worker to the server, on which commands are counted and disturbed."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.sent: Counter[str] = Counter()
        self._names = {shipped()[name].sha.encode(): name for name in shipped().names()}
        proxy.on(self._count, "")

    def _count(self, words: list[bytes]) -> bool:
        if words[:1] == [b"EVALSHA"]:
            self.sent[self._names[words[1]]] += 1
        return False

    def disturb(self, script: str, fault: str, times: int = 1) -> None:
        """Does something to the next calls of a script."""
        sha = shipped()[script].sha.encode()
        self.proxy.on(lambda words: words[:2] == [b"EVALSHA", sha], fault, times)


class Crowd:
    """Lets handlers go on when enough of them are there, all in one turn of the loop."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._together: asyncio.Event | None = None

    async def meet(self) -> None:
        """Waits for the others."""
        if self._together is None:
            self._together = asyncio.Event()
        self._left -= 1
        if self._left <= 0:
            self._together.set()
        await self._together.wait()


def one_intent_each(queue: Queue, ids: list[str]) -> None:
    """Every task has done one effect, and there is evidence of exactly that."""
    for task_id in ids:
        events = Counter(line["event"] for line in queue.evidence(task_id))
        assert (events["intent"], events["outcome"]) == (1, 1), events
        assert [record.state for record in queue.effects(task_id)] == ["done"]
