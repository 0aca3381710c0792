"""The numbers of the protocol stand in Lua, those of the API in Python, and the documentation promises both."""

from __future__ import annotations

import inspect
from datetime import timedelta

import pytest

from redislease import Backoff, InvalidInput, Queue, limits, validation
from redislease.scripts import defaults_table

SECOND, HOUR, DAY = 1_000, 3_600_000, 86_400_000

CALLED_DIFFERENTLY = {"claim_bytes": "CALL_BYTES"}
ONLY_IN_LUA = {
    *("sequence", "integer", "unpack", "claim_slots", "structural_lines", "effect_lines", "late_lines", "spent_nonces"),
    *("key_bytes", "retention_floor_ms", "signal_ms", "worker_silent_ms", "worker_seen_every_ms"),
}

DOCUMENTED = {
    "LEASE_MS": 60 * SECOND,
    "LEASE_MS_MIN": 100,
    "LEASE_MS_MAX": 12 * HOUR,
    "MAX_ATTEMPTS": 5,
    "MAX_EXPIRATIONS": 3,
    "COUNT_MAX": 10_000,
    "PAYLOAD_BYTES": 1024**2,
    "RESULT_BYTES": 1024**2,
    "CALL_BYTES": 4 * 1024**2,
    "ERROR_BYTES": 8 * 1024,
    "NOTE_BYTES": 1024,
    "NAME_BYTES": 128,
    "TASK_ID_CHARS": 128,
    "IDEMPOTENCY_KEY_BYTES": 128,
    "WORKER_NAME_CHARS": 40,
    "CREDENTIAL_BYTES": 64,
    "VALUE_BYTES": 64,
    "PRIORITY_MAX": 100,
    "BATCH": 1_000,
    "ENQUEUE_BATCH": 500,
    "RENEW_BATCH": 200,
    "REAP": 100,
    "PURGE": 500,
    "COMPLETED_RETENTION_MS": HOUR,
    "CANCELLED_RETENTION_MS": 7 * DAY,
    "EVIDENCE_RETENTION_MS": 30 * DAY,
    "RETRY_FOR_S": 30.0,
    "HEARTBEATS_PER_LEASE": 3,
    "BLOCK_S_MIN": 0.1,
    "BLOCK_S_MAX": 5.0,
}


@pytest.mark.parametrize(("name", "value"), DOCUMENTED.items())
def test_limits_are_the_documented_ones(name: str, value: float) -> None:
    assert getattr(limits, name) == value


@pytest.mark.parametrize("field", defaults_table("DEFAULT"))
def test_what_a_missing_field_means_is_the_same_on_both_sides(field: str) -> None:
    assert getattr(limits, field.upper()) == defaults_table("DEFAULT")[field]


@pytest.mark.parametrize("field", defaults_table("LIMIT"))
def test_limits_that_both_sides_state_are_equal(field: str) -> None:
    name = CALLED_DIFFERENTLY.get(field, field.upper())
    if field in ONLY_IN_LUA:
        assert not hasattr(limits, name), f"stated on both sides: compare {field}"
    else:
        assert getattr(limits, name) == defaults_table("LIMIT")[field]


def test_the_protocol_fits_into_a_double() -> None:
    lua = defaults_table("LIMIT")
    highest_score = (limits.PRIORITY_MAX + 100) * 2**44 + lua["sequence"]
    assert lua["sequence"] == 2**44 - 1
    assert highest_score < lua["integer"] == 2**53 - 1
    assert lua["integer"] > limits.AT_MS_MAX


def test_what_lua_unpacks_stays_within_its_stack() -> None:
    assert 2 * defaults_table("LIMIT")["unpack"] <= 1_000


def test_retention_has_a_floor() -> None:
    assert defaults_table("LIMIT")["retention_floor_ms"] == 60 * SECOND


@pytest.mark.parametrize(
    ("argument", "default"),
    [
        ("completed", limits.COMPLETED_RETENTION_MS / SECOND),
        ("cancelled", limits.CANCELLED_RETENTION_MS / SECOND),
        ("dead", None),
        ("evidence", limits.EVIDENCE_RETENTION_MS / SECOND),
        ("limit", limits.PURGE),
    ],
)
def test_purge_has_the_documented_defaults(argument: str, default: float | None) -> None:
    assert inspect.signature(Queue.purge).parameters[argument].default == default


def test_reap_has_the_documented_default() -> None:
    assert inspect.signature(Queue.reap).parameters["limit"].default == limits.REAP


def test_backoff_has_the_documented_default() -> None:
    backoff = Backoff()
    delays = [backoff.delay_ms(failures, random=0.0) for failures in (1, 2, 3, 50)]
    assert delays == [1 * SECOND, 2 * SECOND, 4 * SECOND, 600 * SECOND]
    assert backoff.delay_ms(1, random=1.0) == SECOND // 2


@pytest.mark.parametrize("seconds", [0.0999, 12 * 3600 + 0.001, 0, -1, None, True, "30", float("nan"), float("inf")])
def test_a_lease_outside_its_limits_is_refused(seconds: object) -> None:
    with pytest.raises(InvalidInput):
        validation.lease_ms(seconds)


@pytest.mark.parametrize("seconds", [0.1, 12 * 3600, timedelta(seconds=60), 1])
def test_a_lease_at_its_limits_is_taken(seconds: object) -> None:
    validation.lease_ms(seconds)
