"""What Prometheus asks a worker or a reaper for. Needs the extra `metrics`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from redislease.errors import ConfigurationError, RedisLeaseError
from redislease.lease_core import LeaseCore
from redislease.models import Recovery, Stats
from redislease.queue import Queue
from redislease.worker.observer import Observer

try:
    import prometheus_client as prometheus
    from prometheus_client.core import GaugeMetricFamily
except ImportError as problem:  # the extra is not installed
    raise ConfigurationError("metrics need prometheus-client: pip install 'redislease[metrics]'") from problem

HANDLER_S = (0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1_800, 7_200)
LEFT_S = (0.1, 0.5, 1, 2, 5, 10, 20, 30, 40, 60, 120, 600, 3_600)


class Metrics(Observer):
    """Counters of this process, and the state of its queues as the server has it when somebody asks.

    Args:
        queues: What lists the queues to ask for their state.
    """

    def __init__(self, queues: Callable[[], Sequence[Queue]]) -> None:
        self.registry = prometheus.CollectorRegistry()
        self._claims = self._counter("claims", "Tasks claimed.", "queue")
        self._renewals = self._counter("renewals", "Leases renewed.", "queue")
        self._losses = self._counter("losses", "Leases lost, by reason.", "queue", "reason")
        self._endings = self._counter("endings", "Leases ended by their holder.", "queue", "verb", "status")
        self._recoveries = self._counter(
            "recoveries", "Leases that ended by themselves.", "queue", "side_effect", "cause", "status"
        )
        self._handler_s = prometheus.Histogram(
            "redislease_handler_seconds",
            "How long handlers took.",
            ["queue", "name"],
            registry=self.registry,
            buckets=HANDLER_S,
        )
        self._left_s = prometheus.Histogram(
            "redislease_lease_left_at_renewal_seconds",
            "What the lease nearest to its end had left when it was renewed.",
            ["queue"],
            registry=self.registry,
            buckets=LEFT_S,
        )
        self.registry.register(QueueStates(queues))

    def _counter(self, name: str, about: str, *labels: str) -> Any:
        return prometheus.Counter(f"redislease_{name}", about, labels, registry=self.registry)

    def claimed(self, lease: LeaseCore) -> None:
        self._claims.labels(lease._handle.queue).inc()

    def ended(self, lease: LeaseCore, verb: str, status: str) -> None:
        self._endings.labels(lease._handle.queue, verb, status).inc()

    def lost(self, lease: LeaseCore, reason: str) -> None:
        self._losses.labels(lease._handle.queue, reason).inc()

    def handled(self, lease: LeaseCore, seconds: float) -> None:
        self._handler_s.labels(lease._handle.queue, lease._grant.name).observe(seconds)

    def renewed(self, queue: str, amount: int, smallest_left_s: float) -> None:
        self._renewals.labels(queue).inc(amount)
        self._left_s.labels(queue).observe(smallest_left_s)

    def recovered(self, queue: str, recovery: Recovery) -> None:
        """A lease ended by itself, and the policy has decided."""
        self._recoveries.labels(queue, recovery.side_effect, recovery.cause, recovery.status).inc()

    def text(self) -> bytes:
        """Everything, in the text format of Prometheus."""
        return bytes(prometheus.generate_latest(self.registry))


class QueueStates:
    """Asks the server for the state of queues at each scrape; one that cannot be asked is down."""

    def __init__(self, queues: Callable[[], Sequence[Queue]]) -> None:
        self._queues = queues

    def describe(self) -> Iterable[Any]:
        """Nothing: the server is not asked before the first scrape."""
        return []

    def collect(self) -> Iterable[Any]:
        """The state of each queue now."""
        sizes = GaugeMetricFamily("redislease_tasks", "Tasks in a state.", labels=["queue", "state"])
        ages = {
            name: GaugeMetricFamily(f"redislease_{name}_seconds", about, labels=["queue"])
            for name, about in (
                ("oldest_ready_age", "Since when the task at the head of the queue exists."),
                ("oldest_expired_lease", "How long the oldest expired lease has not been recovered."),
                ("oldest_reconciling_age", "Since when a task waits for a decision about its effects."),
            )
        }
        up = GaugeMetricFamily("redislease_queue_up", "Whether the server answers about the queue.", labels=["queue"])
        for queue in self._queues():
            try:
                stats = queue.stats()
            except RedisLeaseError:
                up.add_metric([queue.name], 0)
                continue
            up.add_metric([queue.name], 1)
            for state, size in (*stats.states.items(), ("unsettled", stats.unsettled), ("orphans", stats.orphans)):
                sizes.add_metric([queue.name, state], size)
            for name, age_s in _ages_s(stats).items():
                ages[name].add_metric([queue.name], age_s)
        return [up, sizes, *ages.values()]


def _ages_s(stats: Stats) -> dict[str, float]:
    def since(at_ms: int | None) -> float:
        return 0.0 if at_ms is None else max(0, stats.now - at_ms) / 1000

    return {
        "oldest_ready_age": (stats.head_age_ms or 0) / 1000,
        "oldest_expired_lease": since(stats.next_expiry_at),
        "oldest_reconciling_age": since(stats.oldest_reconciling_at),
    }
