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
