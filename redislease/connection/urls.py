"""Server URLs: parsed, checked, and shown without their passwords."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from redis.connection import parse_url as parse_redis_url

from redislease.errors import ConfigurationError

ENVIRONMENT_VARIABLE = "REDISLEASE_URL"
DEFAULT_URL = "redis://localhost:6379/0"

_SERVER_SCHEMES = ("redis", "rediss", "unix")
_LATER = {"redis+sentinel": "Sentinel", "rediss+sentinel": "Sentinel", "redis+cluster": "Cluster"}
_TLS_OPTIONS = frozenset(
    f"ssl_{name}"
    for name in (
        "ca_certs", "ca_data", "ca_path", "certfile", "keyfile", "password", "cert_reqs", "check_hostname",
        "ciphers", "min_version", "include_verify_flags", "exclude_verify_flags",
    )
)  # fmt: skip
_OPTIONS = frozenset({"db", "protocol", "username", "password", "client_name"})
_SECRET_OPTION = re.compile(r"(?i)([?&][^=&]*pass[^=&]*=)[^&#]*")
_MEMORY_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True, slots=True)
class ServerURL:
    """A URL that passed every check.

    Attributes:
        scheme: `redis`, `rediss`, `unix`, `memory` or `embedded`.
        redacted: The URL without passwords, for messages.
        options: For the first three schemes: what redis-py's connections need to know, passwords included.
        target: The name of a memory server, or the directory of an embedded one.
    """

    scheme: str
    redacted: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    target: str = ""


def default_url() -> str:
    """The URL to use when none was given: `REDISLEASE_URL`, else a local server."""
    return os.environ.get(ENVIRONMENT_VARIABLE) or DEFAULT_URL


def redacted(url: str) -> str:
    """The URL with every password replaced by `***`, however broken it is.

    Everything before the last `@` counts as credentials, so that a password with an unescaped `/`, `@` or `?` does not
    show either.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "", url
    credentials, at, address = rest.rpartition("@")
    if at:
        user, colon, _ = credentials.partition(":")
        shown = user if colon and re.fullmatch(r"[\w.-]*", user) else ""
        hidden = ":***" if colon else "***"
        rest = f"{shown}{hidden}@{address}"
    return _SECRET_OPTION.sub(r"\1***", scheme + separator + rest)


def parse_url(url: str) -> ServerURL:
    """Checks a URL and takes it apart.

    Raises:
        ConfigurationError: It is not a URL of a server, or holds an option that means nothing here.
    """
    if not isinstance(url, str):
        raise ConfigurationError(f"a server URL is a string, not {type(url).__name__}")
    scheme, separator, rest = url.partition("://")
    scheme = scheme.lower()
    if separator and scheme in _LATER:
        raise ConfigurationError(f"{_LATER[scheme]} URLs are not available yet: {redacted(url)}")
    if not separator or scheme not in (*_SERVER_SCHEMES, "memory", "embedded"):
        raise ConfigurationError(
            f"not a server URL: {redacted(url)!r}; use redis://HOST:PORT/DB, rediss://…, unix:///PATH, "
            "memory://NAME or embedded:///DIRECTORY"
        )
    if scheme == "memory":
        return _memory_url(url, rest)
    if scheme == "embedded":
        return _embedded_url(url, rest)
    return ServerURL(scheme, redacted(url), _server_options(f"{scheme}://{rest}"))


def _memory_url(url: str, rest: str) -> ServerURL:
    if not _MEMORY_NAME.fullmatch(rest):
        raise ConfigurationError(f"memory://NAME takes a name of letters, digits, '.', '_' and '-': {redacted(url)}")
    return ServerURL("memory", url, target=rest)


def _embedded_url(url: str, rest: str) -> ServerURL:
    if not rest.startswith("/") or "?" in rest or "#" in rest:
        raise ConfigurationError(f"embedded:///DIRECTORY takes an absolute path and no options: {redacted(url)}")
    return ServerURL("embedded", url, target=unquote(rest))


def _server_options(url: str) -> dict[str, Any]:
    shown = redacted(url)
    try:
        parts = urlsplit(url)
        names = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        options: dict[str, Any] = parse_redis_url(url)  # type: ignore[no-untyped-call]
    except ValueError as error:
        # Never its text: urllib quotes what it could not read, and that may be a part of a password.
        raise ConfigurationError(f"this server URL cannot be read: {shown}") from (error if "@" not in url else None)
    options.pop("connection_class", None)
    allowed = _OPTIONS | (_TLS_OPTIONS if parts.scheme == "rediss" else frozenset())
    if unknown := sorted(set(names) - allowed):
        raise ConfigurationError(
            f"{shown}: no such option: {', '.join(unknown)}; there are {', '.join(sorted(allowed))}"
        )
    if repeated := sorted(name for name, values in names.items() if len(values) > 1):
        raise ConfigurationError(f"{shown}: given more than once: {', '.join(repeated)}")
    if parts.scheme == "unix":
        if parts.hostname or not parts.path.strip("/"):
            raise ConfigurationError(f"{shown}: unix:///PATH takes an absolute path, with three slashes")
    elif not re.fullmatch(r"(/\d{0,9})?", parts.path):
        raise ConfigurationError(f"{shown}: what follows the host is a database number")
    if options.get("db", 0) < 0:
        raise ConfigurationError(f"{shown}: a database number is not negative")
    if options.get("protocol", 2) not in (2, 3):
        raise ConfigurationError(f"{shown}: protocol is 2 or 3")
    return options
