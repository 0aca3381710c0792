"""What each error of redis-py and each reply of a server becomes."""

from pathlib import Path

import pytest
from redis import exceptions as redis_errors
from redis.connection import DefaultParser
from sample_scripts import sample_library

from redislease.connection.failures import failure_of, is_retriable
from redislease.connection.retry import CAP_S, RetryPlan, backoff_delays
from redislease.errors import (
    ConfigurationError,
    InvalidInput,
    NotReplicated,
    PermissionDenied,
    RedisLeaseError,
    ServerError,
    ServerLoading,
    ServerOutOfMemory,
    ServerReadOnly,
    ServerUnavailable,
)

# As five engines were seen to send them; 6.2 wraps what happens inside a script.
IN_SCRIPT_62 = "ERR Error running script (call to f_62e6): @user_script:1: @user_script: 1: "

REPLIES: list[tuple[str, type[RedisLeaseError], bool]] = [
    ("OOM command not allowed when used memory > 'maxmemory'.", ServerOutOfMemory, False),
    ("OOM command not allowed when used memory > 'maxmemory'. script: on @user_script:1.", ServerOutOfMemory, False),
    (IN_SCRIPT_62 + "-OOM command not allowed when used memory > 'maxmemory'.", ServerOutOfMemory, False),
    ("READONLY You can't write against a read only replica.", ServerReadOnly, False),
    (IN_SCRIPT_62 + "-READONLY You can't write against a read only replica.", ServerReadOnly, False),
    ("LOADING Redis is loading the dataset in memory", ServerLoading, True),
    ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", ServerUnavailable, True),
    ("CLUSTERDOWN The cluster is down", ServerUnavailable, True),
    ("TRYAGAIN Multiple keys request during rehashing of slot", ServerUnavailable, True),
    ("BUSY Valkey is busy running a script. You can only call SCRIPT KILL.", ServerUnavailable, True),
    ("UNBLOCKED force unblock from blocking operation, instance state changed", ServerUnavailable, True),
    ("ERR max number of clients reached", ServerUnavailable, True),
    ("MISCONF Errors writing to the AOF file: No space left on device", ServerError, False),
    ("NOREPLICAS Not enough good replicas to write.", ServerError, False),
    (IN_SCRIPT_62 + "-NOREPLICAS Not enough good replicas to write.", ServerError, False),
    ("NOPERM User u has no permissions to run the 'zadd' command", PermissionDenied, False),
    ("NOAUTH Authentication required.", PermissionDenied, False),
    ("WRONGPASS invalid username-password pair or user is disabled.", PermissionDenied, False),
    ("DENIED Redis is running in protected mode", PermissionDenied, False),
    (IN_SCRIPT_62 + "The user executing the script can't run this command or subcommand", PermissionDenied, False),
    ("ERR The user executing the script can't access at least one of the keys", PermissionDenied, False),
    ("ERR ACL failure in script: No permissions to access a key script: on @user_script:1.", PermissionDenied, False),
    ("@user_script: 1: The user executing the script can't run this command", PermissionDenied, False),
    ("MOVED 3999 127.0.0.1:6381", ConfigurationError, False),
    ("CROSSSLOT Keys in request don't hash to the same slot", ConfigurationError, False),
    ("WRONGTYPE Operation against a key holding the wrong kind of value", ServerError, False),
    ("ERR unknown command 'X', with args beginning with: 'OOM ' 'READONLY '", ServerError, False),
]


@pytest.mark.parametrize(("reply", "kind", "retriable"), REPLIES)
def test_replies(reply: str, kind: type[RedisLeaseError], retriable: bool) -> None:
    original = DefaultParser.parse_error(reply)  # type: ignore[no-untyped-call]
    failure = failure_of(original, where="redis://h:1/0")
    assert type(failure) is kind
    assert is_retriable(failure) is retriable
    assert failure.__cause__ is original
    assert "redis://h:1/0" in str(failure)


@pytest.mark.parametrize(
    ("error", "kind", "retriable"),
    [
        (redis_errors.ConnectionError("Error 111 connecting"), ServerUnavailable, True),
        (redis_errors.TimeoutError("Timeout reading from h:1"), ServerUnavailable, True),
        (redis_errors.MaxConnectionsError("none free"), ServerUnavailable, True),
        (redis_errors.InvalidResponse("nonsense"), ServerUnavailable, True),
        (ConnectionResetError("reset"), ServerUnavailable, True),
        (TimeoutError(), ServerUnavailable, True),
        (redis_errors.AuthenticationError("invalid username-password pair"), PermissionDenied, False),
        (redis_errors.DataError("Invalid input of type: 'bool'"), InvalidInput, False),
    ],
)
def test_errors_without_a_reply(error: Exception, kind: type[RedisLeaseError], retriable: bool) -> None:
    failure = failure_of(error, where="redis://h:1/0")
    assert type(failure) is kind
    assert is_retriable(failure) is retriable


def test_errors_that_async_connections_wrap() -> None:
    wrapped = redis_errors.ConnectionError("invalid password")
    wrapped.__cause__ = redis_errors.AuthenticationError("invalid password")
    failure = failure_of(wrapped, where="h")
    assert type(failure) is PermissionDenied
    assert failure.__cause__ is wrapped


def test_unconfirmed_writes_are_not_repeated_by_themselves() -> None:
    assert not is_retriable(NotReplicated())


def test_a_script_error_names_the_file_and_line(tmp_path: Path) -> None:
    script = sample_library(tmp_path)["broken"]
    failure = failure_of(
        redis_errors.ResponseError("Wrong number of args script: on @user_script:6."), where="h", script=script
    )
    assert "script broken" in str(failure)
    assert "(lua/broken.lua:6)" in str(failure)


def test_messages_are_short_and_printable() -> None:
    failure = failure_of(redis_errors.ResponseError("ERR \x1b[31m" + "x" * 5_000), where="h")
    assert len(str(failure)) < 500
    assert str(failure).isprintable()


def test_pauses_double_up_to_a_cap_and_are_cut_by_up_to_half() -> None:
    def pauses(jitter: float) -> list[float]:
        delays = backoff_delays(lambda: jitter)
        return [next(delays) for _ in range(9)]

    assert pauses(1.0) == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, CAP_S, CAP_S, CAP_S]
    assert pauses(0.0) == [pause / 2 for pause in pauses(1.0)]


def test_a_plan_ends_with_its_budget() -> None:
    now_s = 100.0
    plan = RetryPlan(2.0, "h", clock=lambda: now_s)
    lost = redis_errors.ConnectionError("lost")
    assert plan.remaining_s() == 2.0
    assert 0.01 <= plan.pause_after(lost) <= 0.02
    now_s += 1.999
    with pytest.raises(ServerUnavailable) as caught:
        plan.pause_after(lost)
    assert caught.value.__cause__ is lost


@pytest.mark.parametrize("error", [redis_errors.OutOfMemoryError("x"), redis_errors.ReadOnlyError("x")])
def test_a_plan_ends_at_once_with_a_final_error(error: Exception) -> None:
    with pytest.raises(ServerError):
        RetryPlan(30.0, "h").pause_after(error)


def test_without_a_budget_there_is_one_attempt() -> None:
    with pytest.raises(ServerUnavailable):
        RetryPlan(0, "h").pause_after(redis_errors.ConnectionError("lost"))


def test_a_plan_with_a_bound_for_one_attempt() -> None:
    plan = RetryPlan(1.0, "h", once=True)
    remaining_s = plan.remaining_s()
    assert remaining_s is not None
    assert 0.9 < remaining_s <= 1.0
    with pytest.raises(ServerUnavailable):
        plan.pause_after(redis_errors.ConnectionError("lost"))


def test_what_an_earlier_attempt_was_told_says_more_than_silence() -> None:
    now_s = 100.0
    plan = RetryPlan(2.0, "h", clock=lambda: now_s)
    plan.pause_after(redis_errors.BusyLoadingError("LOADING Redis is loading the dataset in memory"))
    now_s += 1.999
    with pytest.raises(ServerLoading):
        plan.pause_after(TimeoutError())
    with pytest.raises(ServerUnavailable, match="did not answer in time"):
        RetryPlan(0.001, "h").pause_after(TimeoutError())
