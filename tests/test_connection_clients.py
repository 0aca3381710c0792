"""Where clients come from, whose they are, and which others can be derived from them."""

from __future__ import annotations

import asyncio
import importlib.util
from typing import Any

import fakeredis
import pytest
import redis
from both import Both
from redis.asyncio import Redis as AsyncRedis
from servers import Engine

from redislease.connection import memory
from redislease.connection.clients import open_async_clients, open_clients
from redislease.connection.limits import Limits
from redislease.errors import ConfigurationError


def test_memory_servers_are_shared_by_name(queue_name: str, both: Both) -> None:
    url = f"memory://{queue_name}"
    first, second = open_clients(url), both.pick(open_clients, open_async_clients)(url)
    other = open_clients(f"memory://{queue_name}-other")
    first.client.set("k", b"v")
    assert second.client.get("k") == b"v"
    assert other.client.get("k") is None
    for clients in (first, second, other):
        clients.close()


@pytest.mark.parametrize("package", ["fakeredis", "lupa"])
def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(memory, "find_spec", lambda name: None if name == package else found(name))
    with pytest.raises(ConfigurationError, match=rf"{package}.*pip install 'redislease\[memory\]'"):
        open_clients("memory://x")


def test_our_clients_are_configured_explicitly(engine: Engine) -> None:
    clients = open_clients(engine.url, limits=Limits(socket_timeout_s=3, block_s=2))
    connection = clients.client.connection_pool.get_connection()
    assert connection.retry.get_retries() == 0
    assert connection.socket_timeout == 3
    assert connection.socket_connect_timeout == 5
    assert connection.health_check_interval == (30 if engine.is_real else 0)
    assert "redislease_v" in str(connection.driver_info)
    clients.client.connection_pool.release(connection)
    waiting = clients.blocking.connection_pool.get_connection()
    assert waiting.socket_timeout == 5
    clients.blocking.connection_pool.release(waiting)
    clients.close()
    clients.close()


def test_tcp_connections_are_kept_alive() -> None:
    clients = open_clients("redis://:s3cr3t@localhost:1/2")
    kwargs = clients.client.connection_pool.connection_kwargs
    assert (kwargs["socket_keepalive"], kwargs["db"], kwargs["password"]) == (True, 2, "s3cr3t")
    assert "s3cr3t" not in repr(clients)
    clients.close()


def test_only_one_source(engine: Engine) -> None:
    with pytest.raises(ConfigurationError, match="one of"):
        open_clients(engine.url, client_factory=engine.sync_client)
    with pytest.raises(ConfigurationError, match="not a redis"):
        open_clients(client="redis://localhost")  # type: ignore[arg-type]


def test_a_users_client_stays_open(engine: Engine) -> None:
    with engine.sync_client() as client:
        clients = open_clients(client=client)
        assert clients.client is client
        assert clients.blocking is not client
        clients.close()
        assert client.ping()


def test_a_factory_makes_clients_that_are_ours(engine: Engine) -> None:
    made: list[redis.Redis] = []

    def factory() -> redis.Redis:
        made.append(engine.sync_client())
        return made[-1]

    clients = open_clients(client_factory=factory)
    assert clients.client is made[0]
    assert clients.client.ping()
    clients.close()


def test_a_heartbeat_client_from_a_sync_client(engine: Engine) -> None:
    with engine.sync_client(decode_responses=True, db=1) as client:
        client.set("heartbeat", "x")
        clients = open_clients(client=client)
        derived = clients.heartbeat_client()
        assert derived is not None
        assert derived.get("heartbeat") == b"x"
        assert derived.connection_pool is not client.connection_pool
        derived.close()
        clients.close()
        client.delete("heartbeat")


def test_a_heartbeat_client_from_an_async_client(engine: Engine) -> None:
    async def scenario() -> None:
        client = engine.async_client()
        await client.set("heartbeat", "y")
        clients = open_async_clients(client=client)
        derived = clients.heartbeat_client()
        assert derived is not None
        assert derived.get("heartbeat") == b"y"
        derived.close()
        await clients.aclose()
        await client.delete("heartbeat")
        await client.aclose()

    asyncio.run(scenario())


def test_a_sync_queue_on_an_async_client_and_the_reverse(engine: Engine) -> None:
    async def scenario() -> None:
        asynchronous = engine.async_client()
        clients = open_clients(client=asynchronous)
        assert clients.client.ping()
        clients.close()
        await asynchronous.aclose()
        with engine.sync_client() as client:
            derived = open_async_clients(client=client)
            assert await derived.client.ping()
            await derived.aclose()

    asyncio.run(scenario())


def test_fakeredis_without_an_explicit_server() -> None:
    with fakeredis.FakeRedis(host=f"here-{id(object())}") as client:
        client.set("k", "v")
        clients = open_clients(client=client)
        derived = clients.heartbeat_client()
        assert derived is not None
        assert derived.get("k") == b"v"
        derived.close()
        clients.close()


class OwnConnection(redis.UnixDomainSocketConnection):
    """A connection class that redislease cannot know."""


def test_what_cannot_be_derived(real_engine: Engine) -> None:
    assert real_engine.server
    pool: Any = redis.ConnectionPool(
        connection_class=OwnConnection, path=real_engine.server.socket_path, socket_timeout=2
    )
    with redis.Redis.from_pool(pool) as client:
        clients = open_clients(client=client)
        assert clients.heartbeat_client() is None
        assert clients.blocking is client
        assert clients.block_s == 1.5
        clients.close()
        with pytest.raises(ConfigurationError, match="cannot serve an async queue"):
            open_async_clients(client=client)


def test_credentials_are_carried_over() -> None:
    client = AsyncRedis(host="h", port=7, db=3, username="u", password="s3cr3t", ssl=True, ssl_ca_certs="/ca.pem")
    clients = open_clients(client=client)
    kwargs = clients.client.connection_pool.connection_kwargs
    assert issubclass(clients.client.connection_pool.connection_class, redis.SSLConnection)
    assert (kwargs["host"], kwargs["username"], kwargs["password"]) == ("h", "u", "s3cr3t")
    assert kwargs["ssl_ca_certs"] == "/ca.pem"
    assert clients.where == "redis://h:7/3"
    assert "s3cr3t" not in repr(clients)
    clients.close()
