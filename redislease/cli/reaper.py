"""The verb `reaper`: recovers, promotes and purges until it is told to stop."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.util import find_spec

import click

from redislease import limits
from redislease.cli import options
from redislease.cli.errors import ExitCode
from redislease.cli.retentions import or_default, retentions
from redislease.cli.session import Session
from redislease.cli.worker import LOG_FORMAT
from redislease.connection.clients import open_clients
from redislease.connection.transport import Transport
from redislease.health import HealthServer, address
from redislease.keys import QueueKeys, queues_key
from redislease.queue import Queue
from redislease.reaper import Reaper, Retention
from redislease.scripts import shipped

RETRY_S = 1.0


class Everything:
    """The queues that a server lists, each opened once.

    Args:
        session: Where the server is.
        stack: Closes what was opened.
    """

    def __init__(self, session: Session, stack: ExitStack) -> None:
        self._session = session
        self._stack = stack
        self._queues: dict[str, Queue] = {}
        clients = open_clients(session.server)
        stack.callback(clients.close)
        keys = QueueKeys("any", session.prefix)
        self._transport = Transport(keys, shipped(), clients, retry_for_s=RETRY_S)

    def open(self, name: str) -> Queue:
        """A queue, with little patience: there are others to look after."""
        if name not in self._queues:
            queue = Queue(name, redis_url=self._session.server, prefix=self._session.prefix, retry_for_s=RETRY_S)
            self._stack.callback(queue.close)
            self._queues[name] = queue
        return self._queues[name]

    def __call__(self) -> Sequence[Queue]:
        names = self._transport.read("SMEMBERS", queues_key(self._session.prefix))
        return [self.open(name.decode()) for name in sorted(names)]


@click.command()
@click.option("--queue", "-q", "names", multiple=True, metavar="NAME", help="A queue; may be given again.")
@click.option("--all", "everything", is_flag=True, help="Every queue that the server lists, also later ones.")
@click.option("--url", metavar="URL", help="The server: redis://HOST:PORT/DB.")
@click.option("--prefix", metavar="TEXT", help="What the key names start with.")
@click.option("--no-purge", is_flag=True, help="Delete nothing.")
@retentions
@click.option("--limit", type=int, default=limits.REAP, metavar="N", help=f"Tasks in one call ({limits.REAP}).")
@click.option("--listen", metavar="[HOST:]PORT", help="Answer /healthz there, and /metrics (extra `metrics`).")
@options.pass_session
def reaper(
    session: Session,
    names: tuple[str, ...],
    everything: bool,
    url: str | None,
    prefix: str | None,
    no_purge: bool,
    evidence: float,
    limit: int,
    listen: str | None,
    **kept: float | str | None,
) -> ExitCode:
    """Recovers expired leases, promotes due tasks and deletes what has outlived its retention.

    Any number may run at once. Everything is kept for a minute at least, and a task with an effect in doubt in any
    case.
    """
    session.url = url or session.url
    session.prefix = prefix or session.prefix
    chosen = names or ((session.queue_name,) if session.queue_name and not everything else ())
    if bool(chosen) == everything:
        raise click.UsageError("which queues? Type --queue NAME, once or more, or --all")
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, stream=sys.stderr)
    states = {state: or_default(state, value) for state, value in kept.items()}
    retention = None if no_purge else Retention(**states, evidence=evidence)
    with ExitStack() as stack:
        found = Everything(session, stack)
        works_on = found if everything else [found.open(name) for name in chosen]
        metrics = None
        if listen is not None and find_spec("prometheus_client") is not None:
            from redislease.metrics import Metrics

            metrics = Metrics(lambda: working.queues())
        told = metrics.recovered if metrics else None
        working = Reaper(works_on, retention=retention, limit=limit, on_recovery=told)
        if listen is not None:
            text = metrics.text if metrics else None
            stack.enter_context(HealthServer(address(listen), working.queues, text))
        for kind in (signal.SIGTERM, signal.SIGINT):
            signal.signal(kind, lambda *_: working.stop())
        working.run()
    return ExitCode.DONE
