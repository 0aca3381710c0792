"""Operations of several steps, written once for threads and for asyncio.

A flow is a generator that yields what it needs (a `Run`, a `Read` …), is sent the answer, and returns its result. It
does no I/O itself; `drive` and `adrive` are the two small loops that do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from redislease.commands.call import Call
from redislease.connection.async_transport import AsyncTransport
from redislease.connection.transport import Transport
from redislease.errors import RedisLeaseError
from redislease.scripts import Arg

T = TypeVar("T")


class Run(NamedTuple):
    """Run a call; repeat it for at most `retry_for_s` seconds, or as long as the transport does."""

    call: Call[Any]
    retry_for_s: float | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """Send plain read commands in one round trip; the answers are raw."""

    commands: list[tuple[Arg, ...]]


@dataclass(frozen=True, slots=True)
class Block:
    """Sleep until a bell rings or the time is over."""

    keys: list[str]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Announce:
    """List the queue among all queues, once per process."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Do nothing for some seconds."""

    seconds: float


Step = Run | Read | Block | Announce | Sleep
Flow = Generator[Step, Any, T]


def drive(flow: Flow[T], transport: Transport) -> T:
    """Carries out a flow in this thread."""
    try:
        step = next(flow)
        while True:
            try:
                answer = _carry_out(step, transport)
            except RedisLeaseError as error:
                step = flow.throw(error)
            else:
                step = flow.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


async def adrive(flow: Flow[T], transport: AsyncTransport) -> T:
    """Carries out a flow in the running event loop."""
    try:
        step = next(flow)
        while True:
            try:
                if type(step) is Run:  # nearly all are, and each level of coroutines costs every turn of a busy loop
                    answer = await transport.run(step.call, retry_for_s=step.retry_for_s)
                else:
                    answer = await _acarry_out(step, transport)
            except RedisLeaseError as error:
                step = flow.throw(error)
            else:
                step = flow.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


def _carry_out(step: Step, transport: Transport) -> Any:
    match step:
        case Run(call, retry_for_s):
            return transport.run(call, retry_for_s=retry_for_s)
        case Read(commands):
            return transport.read_many(commands)
        case Block(keys, timeout_s):
            return transport.block(keys, timeout_s)
        case Announce():
            return transport.announce()
        case Sleep(seconds):
            return time.sleep(seconds)


async def _acarry_out(step: Step, transport: AsyncTransport) -> Any:
    match step:
        case Run(call, retry_for_s):
            return await transport.run(call, retry_for_s=retry_for_s)
        case Read(commands):
            return await transport.read_many(commands)
        case Block(keys, timeout_s):
            return await transport.block(keys, timeout_s)
        case Announce():
            return await transport.announce()
        case Sleep(seconds):
            return await asyncio.sleep(seconds)


def run(call: Call[T]) -> Flow[T]:
    """The flow of a single call."""
    answer: T = yield Run(call)
    return answer
