"""What to send for a call, and what the replies mean; no I/O.

Both transports do the same with an exchange: send the commands it names on one connection, hand it the replies, and
repeat until it names none. It keeps the answers that it already has, so a repeated attempt sends only what is missing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from hiredis import pack_command
from redis.exceptions import NoScriptError, ResponseError

from redislease.commands.call import Call
from redislease.connection.failures import failure_of, is_retriable
from redislease.errors import (
    InvalidInput,
    LayoutMismatch,
    NotReplicated,
    RedisLeaseError,
    ServerUnavailable,
)
from redislease.keys import QueueKeys
from redislease.scripts import Arg, Script, ScriptLibrary

MAX_LOADS = 5
"""How often one attempt loads a script that the server does not know, before it counts as a failed attempt."""


def packed(parts: Iterable[Arg]) -> bytes:
    """A command as it goes over the wire, with its text in UTF-8, whatever encoding a user's client is set to.

    Raises:
        InvalidInput: A text holds a lone surrogate.
    """
    try:
        command: bytes = pack_command(tuple(parts))  # type: ignore[arg-type, unused-ignore]
    except UnicodeEncodeError as error:
        raise InvalidInput("a text holds a lone surrogate, which cannot be sent") from error
    return command


class Exchange(ABC):
    """A unit of work on one connection."""

    def begin(self, connection: Any) -> None:  # noqa: B027 - most have nothing to add
        """An attempt begins on an async connection.

        While its replies are awaited, more may be sent there and added to the list that `commands` has answered.
        """

    @abstractmethod
    def commands(self) -> list[bytes]:
        """What to send next, in one go and packed; empty when everything is answered."""

    @abstractmethod
    def accept(self, replies: Sequence[Any]) -> None:
        """Takes the replies to `commands()`, each a raw reply or a `ResponseError`.

        Raises:
            RedisLeaseError: The attempt as a whole failed.
        """


class ReadExchange(Exchange):
    """Plain commands, pipelined.

    Attributes:
        replies: The raw replies.
    """

    def __init__(self, commands: Sequence[Sequence[Arg]], where: str) -> None:
        self._commands = [packed(parts) for parts in commands]
        self._where = where
        self.replies: list[Any] = []

    def commands(self) -> list[bytes]:
        return [] if self.replies else self._commands

    def accept(self, replies: Sequence[Any]) -> None:
        for reply in replies:
            if isinstance(reply, ResponseError):
                raise failure_of(reply, where=self._where)
        self.replies = list(replies)


class CallExchange(Exchange):
    """Script calls of one queue, pipelined.

    Attributes:
        outcomes: For each call, its answer or the `RedisLeaseError` that it ended in.
    """

    def __init__(
        self,
        calls: Sequence[Call[Any]],
        *,
        keys: QueueKeys,
        library: ScriptLibrary,
        where: str,
        wait_replicas: int = 0,
        wait_timeout_ms: int = 0,
    ) -> None:
        self._calls = calls
        self._where = where
        self._wait = (wait_replicas, wait_timeout_ms)
        self._scripts = [library[call.script] for call in calls]
        durable: list[Arg] = ["1" if wait_replicas else "0"]
        self._sends = [
            packed(["EVALSHA", script.sha, 2, keys.meta, keys.never, *durable[: script.durable], *call.args])
            for call, script in zip(calls, self._scripts, strict=True)
        ]
        self._pending = list(range(len(calls)))
        self._unknown: dict[str, Script] = {}
        self._loads = 0
        self._waited = False
        self.outcomes: list[Any] = [None] * len(calls)

    def commands(self) -> list[bytes]:
        if not self._pending:
            return []
        commands: list[bytes] = [packed(["SCRIPT", "LOAD", script.source]) for script in self._unknown.values()]
        commands.extend(self._sends[index] for index in self._pending)
        self._waited = bool(self._wait[0]) and any(self._calls[index].confirm for index in self._pending)
        if self._waited:
            commands.append(packed(["WAIT", *self._wait]))
        return commands

    def accept(self, replies: Sequence[Any]) -> None:
        loads, self._unknown = self._unknown, {}
        for script, reply in zip(loads.values(), replies, strict=False):
            if isinstance(reply, ResponseError):
                raise failure_of(reply, where=self._where, script=script)
        confirmed = replies[-1] if self._waited else None
        failed: RedisLeaseError | None = None
        still_pending: list[int] = []
        for index, reply in zip(self._pending, replies[len(loads) :], strict=False):
            script = self._scripts[index]
            if isinstance(reply, NoScriptError):
                self._unknown[script.sha] = script
                still_pending.append(index)
                continue
            if isinstance(reply, ResponseError):
                failure = failure_of(reply, where=self._where, script=script)
                if is_retriable(failure):
                    failed = failed or failure
                    still_pending.append(index)
                else:
                    self.outcomes[index] = failure
                continue
            self.outcomes[index] = self._answer(index, reply, confirmed)
        self._pending = still_pending
        if failed:
            raise failed
        if self._unknown:
            self._loads += 1
            if self._loads > MAX_LOADS:
                self._loads = 0
                raise ServerUnavailable(f"the server forgets the scripts as fast as they are loaded ({self._where})")

    def _answer(self, index: int, reply: Any, confirmed: Any) -> Any:
        call = self._calls[index]
        if isinstance(reply, list) and reply and reply[0] == b"layout":
            return LayoutMismatch(_layout_sentence(reply))
        try:
            answer = call.read(reply)
        except RedisLeaseError as refusal:
            return refusal
        if confirmed is None or not call.confirm:
            return answer
        if isinstance(confirmed, ResponseError):
            failure = failure_of(confirmed, where=self._where)
            unconfirmed = NotReplicated(f"the write was made, but it cannot be confirmed: {failure}", answer=answer)
            unconfirmed.__cause__ = confirmed
            return unconfirmed
        if confirmed < self._wait[0]:
            return NotReplicated(
                f"the write was made, but {confirmed} of {self._wait[0]} replicas confirmed it within "
                f"{self._wait[1]} ms; repeating it is safe",
                answer=answer,
            )
        return answer


def _layout_sentence(reply: Sequence[Any]) -> str:
    parts = [part.decode("utf-8", "replace") if isinstance(part, bytes) else str(part) for part in reply[1:3]]
    stored, expected = (*parts, "?", "?")[:2]
    return f"the queue's keys have layout {stored}, and this version of redislease writes layout {expected}"


def resp2_shape(command: Sequence[Arg], reply: Any) -> Any:
    """A plain reply as RESP2 shapes it, whichever protocol a user's client speaks.

    Doubles become byte strings, sets lists, and the pairs of WITHSCORES a flat list. A map is a dict in both.
    """
    words = [part.upper() for part in command if isinstance(part, str)]
    plain = _plain(reply)
    if words[:1] == ["HGETALL"] or words[:2] == ["CONFIG", "GET"]:
        return dict(zip(plain[::2], plain[1::2], strict=True)) if isinstance(plain, list) else plain
    if "WITHSCORES" in words and isinstance(plain, list) and plain and isinstance(plain[0], list):
        return [item for pair in plain for item in pair]
    return plain


def _plain(reply: Any) -> Any:
    if isinstance(reply, float):
        return b"%.17g" % reply
    if isinstance(reply, list | tuple | set | frozenset):
        return [_plain(item) for item in reply]
    if isinstance(reply, dict):
        return {_plain(key): _plain(value) for key, value in reply.items()}
    return reply
