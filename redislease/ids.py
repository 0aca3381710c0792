"""Identifiers that are made before the first send, so that a call sent twice is recognised."""

from __future__ import annotations

import os
import secrets
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # base32 in ASCII order: ids sort as their times do
_DIGITS = _ALPHABET.encode() * 8
"""For each byte its lowest five bits as a digit."""


def _base32(number: int, length: int) -> str:
    characters = []
    for _ in range(length):
        number, digit = divmod(number, 32)
        characters.append(_ALPHABET[digit])
    return "".join(reversed(characters))


def task_id() -> str:
    """A new task id: 20 characters of base32, 48 bits of time in milliseconds and 50 bits at random.

    The time only orders ids for people; nothing compares it.
    """
    return _base32(time.time_ns() // 1_000_000, 10) + _base32(secrets.randbits(50), 10)


def nonce() -> str:
    """A new nonce: 8 characters at random (40 bits), unique among the calls on one task."""
    return os.urandom(8).translate(_DIGITS).decode()  # one is drawn for each effect: thousands a second


def own_key(task_id: str, enqueue_nonce: str = "") -> str:
    """The idempotency key of a task that was given none: no other task has it, not even a later one of the same id.

    No key that somebody gives begins with a colon.

    Args:
        task_id: Its id.
        enqueue_nonce: Of the call that enqueued it, where its id was chosen.
    """
    return f":{task_id}:{enqueue_nonce}" if enqueue_nonce else f":{task_id}"
