"""A TCP proxy in front of a server that loses, delays, doubles, cuts and slows what passes through it.

It understands just enough of the protocol to know where a command and where a reply ends, and it does what it was told
to the commands it was told about; everything else passes unharmed.
"""

from __future__ import annotations

import asyncio
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

Command = list[bytes]
Matches = Callable[[Command], bool]

CUT = "cut"
"""The request arrives nowhere, and the connection ends."""
LOSE = "lose"
"""The request is carried out; its reply is lost with the connection."""
SWALLOW = "swallow"
"""The request is carried out; nothing comes back on a connection that stays open."""
TEAR = "tear"
"""The connection ends in the middle of the reply."""
HALF_CLOSE = "half-close"
"""The request is carried out; the server's side of the connection is closed in place of a reply."""
LATE = "late"
"""The request is held back until its connection is gone, and carried out then: see `Proxy.let_late_ones_through`."""
TWICE = "twice"
"""The request is carried out twice; the first reply comes back."""
SLOW = "slow"
"""The reply comes back in crumbs."""

FAULTS = (CUT, LOSE, SWALLOW, TEAR, HALF_CLOSE, LATE, TWICE, SLOW)

CRUMB_BYTES = 7


def end_of_frame(data: bytes | bytearray, start: int = 0) -> int | None:
    """Where the command or reply that begins at `start` ends; None while it is not complete."""
    line_end = data.find(b"\r\n", start)
    if line_end < 0:
        return None
    kind, head, position = data[start : start + 1], data[start + 1 : line_end], line_end + 2
    if kind in b"$=!":
        size = int(head)
        end = position + size + 2 if size >= 0 else position
        return end if end <= len(data) else None
    if kind in b"*%~>":
        for _ in range(int(head) * (2 if kind == b"%" else 1)):
            inner = end_of_frame(data, position)
            if inner is None:
                return None
            position = inner
    return position


def words_of(frame: bytes) -> Command:
    """The words of a command; an empty list for what is not one."""
    words = []
    position = frame.find(b"\r\n") + 2
    while frame[position : position + 1] == b"$":
        line_end = frame.find(b"\r\n", position)
        size = int(frame[position + 1 : line_end])
        words.append(bytes(frame[line_end + 2 : line_end + 2 + size]))
        position = line_end + 2 + size + 2
    return words


@dataclass
class _Rule:
    matches: Matches
    fault: str
    left: int


@dataclass
class _Link:
    """One client's connection and the connection to the server behind it."""

    client: asyncio.StreamWriter
    upstream: asyncio.StreamWriter
    replies: asyncio.StreamReader
    buffer: bytearray = field(default_factory=bytearray)

    async def reply(self) -> bytes:
        while (end := end_of_frame(self.buffer)) is None:
            chunk = await self.replies.read(65_536)
            if not chunk:
                raise ConnectionError("the server closed the connection")
            self.buffer += chunk
        reply = bytes(self.buffer[:end])
        del self.buffer[:end]
        return reply

    async def ask(self, frame: bytes) -> bytes:
        self.upstream.write(frame)
        await self.upstream.drain()
        return await self.reply()

    async def answer(self, reply: bytes) -> None:
        self.client.write(reply)
        await self.client.drain()


class Proxy:
    """Listens on `port` of the local host.

    Args:
        socket_path: The server's unix socket.
    """

    def __init__(self, socket_path: str) -> None:
        self._socket_path = socket_path
        self._rules: list[_Rule] = []
        self.met: list[str] = []
        """The faults that were carried out, in order."""
        self._loop = asyncio.new_event_loop()
        self._links: set[asyncio.Task[Any]] = set()
        self._late = asyncio.Event()
        self._held_back: set[asyncio.Future[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]

    @property
    def url(self) -> str:
        """The URL that leads through the proxy."""
        return f"redis://127.0.0.1:{self.port}/0"

    def on(self, matches: Matches, fault: str, times: int = 1) -> None:
        """Does something to the next commands that match."""
        self._rules.append(_Rule(matches, fault, times))

    def clear(self) -> None:
        """Forgets what was not met, and lets late requests through."""
        self._rules.clear()
        self.let_late_ones_through()
        self.met.clear()

    def let_late_ones_through(self) -> None:
        """Carries out the requests that were held back, and waits until the server has answered them."""

        async def release() -> None:
            self._late.set()
            await asyncio.gather(*self._held_back)
            self._late.clear()

        self._call(release())

    def close(self) -> None:
        """Ends every connection, and the thread."""

        async def end() -> None:
            self._server.close()
            for task in self._links:
                task.cancel()
            await asyncio.gather(*self._links, return_exceptions=True)

        self._call(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    def _fault_for(self, command: Command) -> str:
        for rule in self._rules:
            if rule.left and rule.matches(command):
                rule.left -= 1
                self.met.append(rule.fault)
                return rule.fault
        return ""

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._links.add(task)
        upstream: asyncio.StreamWriter | None = None
        try:
            replies, upstream = await asyncio.open_unix_connection(self._socket_path)
            await self._serve(reader, _Link(writer, upstream, replies))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._links.discard(task)
            for side in (writer, upstream):
                if side:
                    side.close()
                    with suppress(OSError, asyncio.CancelledError):
                        await side.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, link: _Link) -> None:
        requests = bytearray()
        while True:
            while (end := end_of_frame(requests)) is not None:
                frame = bytes(requests[:end])
                del requests[:end]
                fault = self._fault_for(words_of(frame))
                if not await self._pass_on(fault, frame, reader, link):
                    return
            chunk = await reader.read(65_536)
            if not chunk:
                return
            requests += chunk

    async def _pass_on(self, fault: str, frame: bytes, reader: asyncio.StreamReader, link: _Link) -> bool:
        """Answers whether the connection goes on."""
        if fault == CUT:
            return False
        if fault == LATE:
            done = self._loop.create_future()
            self._held_back.add(done)
            try:
                await self._late.wait()
                await link.ask(frame)
            finally:
                self._held_back.discard(done)
                done.set_result(None)
            return False
        reply = await link.ask(frame)
        if fault == TWICE:
            await link.ask(frame)
        if fault == LOSE:
            return False
        if fault == TEAR:
            await link.answer(reply[: len(reply) // 2])
            return False
        if fault == HALF_CLOSE:
            link.client.write_eof()
            await reader.read()
            return False
        if fault == SWALLOW:
            await reader.read()
            return False
        if fault == SLOW:
            for start in range(0, len(reply), CRUMB_BYTES):
                await link.answer(reply[start : start + CRUMB_BYTES])
                await asyncio.sleep(0)
            return True
        await link.answer(reply)
        return True


class _Threads(socketserver.ThreadingTCPServer):
    daemon_threads = True


@contextmanager
def always_answering(reply: bytes) -> Iterator[str]:
    """The URL of a server that answers the same to every command, whatever it is."""

    class Answering(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            buffer = bytearray()
            with suppress(ConnectionError):
                while chunk := self.request.recv(65_536):
                    buffer += chunk
                    while (end := end_of_frame(buffer)) is not None:
                        del buffer[:end]
                        self.request.sendall(reply + b"\r\n")

    with _Threads(("127.0.0.1", 0), Answering) as listening:
        serving = threading.Thread(target=listening.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield f"redis://127.0.0.1:{listening.server_address[1]}/0"
        finally:
            listening.shutdown()
            serving.join()
