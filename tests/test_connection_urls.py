"""Server URLs."""

import pytest

from redislease.connection.urls import default_url, parse_url, redacted
from redislease.errors import ConfigurationError

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("redis://localhost", {"host": "localhost"}),
        ("redis://:s3cr3t@h:6380/3", {"password": SECRET, "host": "h", "port": 6380, "db": 3}),
        ("redis://u:s3%2Fc@[::1]:1/?db=2&protocol=3", {"username": "u", "password": "s3/c", "host": "::1", "db": 2}),
        ("unix:///run/r.sock?db=4", {"path": "/run/r.sock", "db": 4}),
        ("rediss://h/0?ssl_ca_certs=/ca.pem", {"host": "h", "db": 0, "ssl_ca_certs": "/ca.pem"}),
        ("REDIS://h", {"host": "h"}),
    ],
)
def test_server_urls(url: str, options: dict[str, object]) -> None:
    parsed = parse_url(url)
    assert options.items() <= parsed.options.items()
    assert SECRET not in parsed.redacted
    assert SECRET not in repr(parsed)


@pytest.mark.parametrize(
    ("url", "target"), [("memory://a.b-c_1", "a.b-c_1"), ("embedded:///var/q", "/var/q"), ("embedded:///a%20b", "/a b")]
)
def test_urls_of_our_own(url: str, target: str) -> None:
    assert parse_url(url).target == target


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "not a server URL"),
        ("localhost:6379", "not a server URL"),
        ("http://u:s3cr3t@h", "not a server URL"),
        ("redis+sentinel://:s3cr3t@a,b/main/0", "Sentinel URLs are not available yet"),
        ("redis+cluster://:s3cr3t@a,b", "Cluster URLs are not available yet"),
        ("redis://h:port", "cannot be read"),
        ("redis://:s3cr3t/x@h:99999999", "cannot be read"),
        ("redis://:s3cr3t@h/zero", "database number"),
        ("redis://:s3cr3t@h?retries=3", "no such option: retries"),
        ("redis://h?protocol=4", "protocol is 2 or 3"),
        ("redis://h?db=-1", "not negative"),
        ("redis://h?db=1&db=2", "more than once"),
        ("redis://h?ssl_keyfile=/k", "no such option"),
        ("unix://run/r.sock", "absolute path"),
        ("unix:///?password=s3cr3t", "absolute path"),
        ("memory://", "memory://NAME"),
        ("memory://a b", "memory://NAME"),
        ("embedded://dir", "absolute path"),
    ],
)
def test_refused_with_a_clear_sentence_and_no_password(url: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as caught:
        parse_url(url)
    assert SECRET not in str(caught.value)
    assert SECRET not in str(caught.value.__cause__)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://u:s3cr3t@h/0", "redis://u:***@h/0"),
        ("redis://:s3cr3t@h/0", "redis://:***@h/0"),
        ("redis://:s3cr3t/with@odd?chars@h/0", "redis://:***@h/0"),
        ("s3cr3t@h", "***@h"),
        ("unix:///s?db=1&password=s3cr3t&protocol=3", "unix:///s?db=1&password=***&protocol=3"),
        ("rediss://h?ssl_password=s3cr3t", "rediss://h?ssl_password=***"),
        ("redis://h/0", "redis://h/0"),
    ],
)
def test_redacted(url: str, shown: str) -> None:
    assert redacted(url) == shown


def test_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDISLEASE_URL", raising=False)
    assert default_url() == "redis://localhost:6379/0"
    monkeypatch.setenv("REDISLEASE_URL", "redis://elsewhere")
    assert default_url() == "redis://elsewhere"
