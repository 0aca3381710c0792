"""What went wrong at the server, in our own terms.

A reply is judged by its error code wherever it stands in the text: inside a script, older servers wrap it, and several
codes reach redis-py only as a plain `ResponseError`.
"""

from __future__ import annotations

import re

from redis import exceptions as redis_errors

from redislease.errors import (
    ConfigurationError,
    InvalidInput,
    PermissionDenied,
    RedisLeaseError,
    ServerError,
    ServerLoading,
    ServerOutOfMemory,
    ServerReadOnly,
    ServerUnavailable,
)
from redislease.scripts import Script

_SHOWN_LENGTH = 300
_CODE = re.compile(
    r"(?:^|\s-)(OOM|READONLY|LOADING|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|BUSY|UNKILLABLE|MISCONF|NOREPLICAS|NOPERM|NOAUTH"
    r"|WRONGPASS|DENIED|UNBLOCKED|MOVED|ASK|CROSSSLOT)(?=\s)"
)
_DENIED = re.compile(
    r"^(@user_script: ?\d+: )?(ACL failure in script|The user executing the script can't)"
    r"|: The user executing the script can't|without any password configured",
    re.IGNORECASE,
)

_KINDS: dict[str, tuple[type[RedisLeaseError], str]] = {
    "OOM": (ServerOutOfMemory, "the server is at maxmemory and refused the write; nothing was stored"),
    "READONLY": (ServerReadOnly, "the server is a read-only replica"),
    "LOADING": (ServerLoading, "the server is still loading its data"),
    "MASTERDOWN": (ServerUnavailable, "the server is a replica whose primary is down"),
    "CLUSTERDOWN": (ServerUnavailable, "the cluster is down"),
    "TRYAGAIN": (ServerUnavailable, "the queue's keys are moving to another node"),
    "BUSY": (ServerUnavailable, "the server is busy with a long script"),
    "UNKILLABLE": (ServerUnavailable, "the server is busy with a long script"),
    "UNBLOCKED": (ServerUnavailable, "the server became a replica"),
    "MISCONF": (ServerError, "the server cannot save to disk and refuses writes"),
    "NOREPLICAS": (ServerError, "the server has too few healthy replicas and refuses writes"),
    "NOPERM": (PermissionDenied, "the server refuses the user"),
    "NOAUTH": (PermissionDenied, "the server asks for a password"),
    "WRONGPASS": (PermissionDenied, "the server refuses the user name or the password"),
    "DENIED": (PermissionDenied, "the server is in protected mode"),
    "MOVED": (ConfigurationError, "the server is a node of a Cluster, which needs a Cluster URL"),
    "ASK": (ConfigurationError, "the server is a node of a Cluster, which needs a Cluster URL"),
    "CROSSSLOT": (ConfigurationError, "the keys belong to several slots of a Cluster"),
}


def is_retriable(failure: BaseException) -> bool:
    """Whether sending the same call again can help without anybody's doing.

    True for a lost connection, a timeout, and the passing states LOADING, MASTERDOWN, CLUSTERDOWN, TRYAGAIN and BUSY.
    """
    return isinstance(failure, ServerUnavailable | ServerLoading)


def is_silence(error: BaseException) -> bool:
    """Whether nothing was heard of the server in time, as opposed to an answer or a refused connection."""
    return isinstance(error, redis_errors.TimeoutError | TimeoutError)


def failure_of(error: BaseException, *, where: str, script: Script | None = None) -> RedisLeaseError:
    """Our exception for one of redis-py, or of the socket below it, with the original as its cause.

    Args:
        error: What was raised, or what came as a reply.
        where: The server's redacted URL.
        script: The script that was called, to name the line that failed.
    """
    failure = _judge(_innermost(error), where, script)
    failure.__cause__ = error
    return failure


def _innermost(error: BaseException) -> BaseException:
    """What a plain `ConnectionError` of redis-py's hides: async connections wrap every error of the handshake in one,
    so that a wrong password would look like a lost connection.
    """
    while type(error) is redis_errors.ConnectionError and isinstance(error.__cause__, redis_errors.RedisError):
        error = error.__cause__
    return error


def _judge(error: BaseException, where: str, script: Script | None) -> RedisLeaseError:
    text = _shown(error, script)
    code = _code_of(error, text)
    if code:
        kind, sentence = _KINDS[code]
        return kind(f"{sentence} ({where}): {text}")
    if isinstance(error, redis_errors.AuthenticationError | redis_errors.AuthorizationError) or _DENIED.search(text):
        return PermissionDenied(f"the server refuses the user ({where}): {text}")
    if isinstance(error, redis_errors.NoScriptError):
        return ServerUnavailable(f"the server forgets the scripts as fast as they are loaded ({where})")
    if isinstance(error, redis_errors.MaxConnectionsError):
        return ServerUnavailable(f"every connection to {where} is busy: {text}")
    if "max number of clients" in text:
        return ServerUnavailable(f"the server has no free connection ({where}): {text}")
    if is_silence(error):
        return ServerUnavailable(f"{where} did not answer in time: {text}")
    if isinstance(error, redis_errors.ConnectionError | redis_errors.InvalidResponse | OSError):
        return ServerUnavailable(f"cannot reach {where}: {text}")
    if isinstance(error, redis_errors.DataError | UnicodeError):
        return InvalidInput(f"a value cannot be sent to the server: {text}")
    name = f"script {script.name}: " if script else ""
    return ServerError(f"the server answered with an error ({where}): {name}{text}")


def _code_of(error: BaseException, text: str) -> str:
    """The error code, which redis-py keeps apart from the text if it knows it."""
    known = getattr(error, "status_code", None)
    if known in _KINDS:
        return str(known)
    if not isinstance(error, redis_errors.RedisError):
        return ""
    for kind, code in _BY_CLASS:
        if isinstance(error, kind):
            return code
    if isinstance(error, redis_errors.ResponseError) and (found := _CODE.search(text)):
        return found[1]
    return ""


_BY_CLASS: tuple[tuple[type[Exception], str], ...] = (
    (redis_errors.OutOfMemoryError, "OOM"),
    (redis_errors.ReadOnlyError, "READONLY"),
    (redis_errors.BusyLoadingError, "LOADING"),
    (redis_errors.MasterDownError, "MASTERDOWN"),
    (redis_errors.ClusterDownError, "CLUSTERDOWN"),
    (redis_errors.TryAgainError, "TRYAGAIN"),
    (redis_errors.NoPermissionError, "NOPERM"),
    (redis_errors.MovedError, "MOVED"),
    (redis_errors.AskError, "ASK"),
    (redis_errors.ClusterCrossSlotError, "CROSSSLOT"),
)


def _shown(error: BaseException, script: Script | None) -> str:
    """The error's text on one line, short and without control characters, since a server may echo data."""
    text = str(error) or type(error).__name__
    if script:
        text = script.locate(text)
    text = "".join(char if char.isprintable() else " " for char in text)
    return text if len(text) <= _SHOWN_LENGTH else text[:_SHOWN_LENGTH] + "…"
