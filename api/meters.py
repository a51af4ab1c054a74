"""What is counted and timed, and where it is read from."""

from collections.abc import Callable

import grpc
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.registry import Collector

from domain.operation import Backlog, Kind

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Meters:
    """One set per process, so that two servers in one test do not count together."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._calls = Counter(
            "windlass_grpc_calls",
            "Calls answered, by status code.",
            ("service", "method", "code"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "windlass_grpc_seconds",
            "How long calls took; a stream counts until its end.",
            ("service", "method"),
            buckets=SECONDS,
            registry=self._registry,
        )

        self._oldest = Gauge(
            "windlass_operations_oldest_requested_seconds",
            "How long what was accepted first and has not started has been waiting.",
            registry=self._registry,
        )
        self._waiting = Gauge(
            "windlass_operations_waiting",
            "Operations that have been waiting for something over several attempts.",
            ("kind",),
            registry=self._registry,
        )

        self._stuck = Gauge(
            "windlass_operations_needing_a_person",
            "Operations that cannot be read, or that the sweep could do nothing about.",
            registry=self._registry,
        )

        self._runs = Gauge(
            "windlass_background_task_running",
            "1 while it runs, 0 while it waits to be begun again after it failed.",
            ("task",),
            registry=self._registry,
        )

    def runs(self, task: str, running: bool) -> None:
        self._runs.labels(task).set(running)

    def stands_still(self, backlog: Backlog) -> None:
        """Show what was last seen to stand still."""
        self._oldest.set(backlog.oldest_requested_seconds)
        self._stuck.set(backlog.need_a_person)
        for kind in Kind:
            self._waiting.labels(kind).set(backlog.waiting.get(kind, 0))

    def method(self, name: str) -> Callable[[grpc.StatusCode, float], None]:
        """What counts the calls of one method: its code and how long it took."""
        service, _, verb = name.rpartition("/")
        seconds = self._seconds.labels(service, verb)
        counts = {grpc.StatusCode.OK: self._calls.labels(service, verb, "OK")}

        def count(code: grpc.StatusCode, took: float) -> None:
            if code not in counts:
                counts[code] = self._calls.labels(service, verb, code.name)
            counts[code].inc()
            seconds.observe(took)

        return count

    def add(self, collector: Collector) -> None:
        """Show what somebody else counts, whenever it is asked for."""
        self._registry.register(collector)

    def text(self) -> bytes:
        """Everything, in the text format of Prometheus."""
        return generate_latest(self._registry)
