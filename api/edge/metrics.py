"""What connected programs measure: of every series the last value, as long as its stream is there.

Series are exported as they are named, behind `edge_`: metric, then value, with the tags as labels.
The contract's own messages for metrics are placeholders; they are shown as they were sent."""

import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple, TypeVar

import structlog
from google.protobuf.message import Message
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from api.asking import Context
from api.edge.matching import matches
from protos.gen.edge.app_inst_pb2 import AppInstMetrics
from protos.gen.edge.app_inst_pb2_grpc import AppInstMetricsApiServicer
from protos.gen.edge.cloudlet_pb2 import CloudletMetrics
from protos.gen.edge.cloudlet_pb2_grpc import CloudletMetricsApiServicer
from protos.gen.edge.metric_pb2 import Metric

MOST_SERIES = 1000
"""That one stream may have."""

LONGEST = 200
"""Characters of a name or a tag."""

_STRANGE = re.compile(r"[^a-zA-Z0-9_]")

Placeholder = TypeVar("Placeholder", bound=Message)

log = structlog.get_logger()


class Series(NamedTuple):
    name: str
    labels: tuple[tuple[str, str], ...]


class Measured(Collector):
    def __init__(self) -> None:
        self._values: dict[Series, tuple[int, float]] = {}
        self._counts: dict[int, int] = defaultdict(int)
        self._shown: dict[tuple[int, str], Message] = {}

    def put(self, stream: int, metric: Metric) -> None:
        """A metric that came by a stream, with the newest of its values."""
        tags = sorted((_label(tag.name), tag.val[:LONGEST]) for tag in metric.tags)
        labels = tuple(dict(tags).items())
        for value in metric.vals:
            series = Series(f"edge_{_word(metric.name)}_{_word(value.name)}", labels)
            number = value.dval if value.HasField("dval") else float(value.ival)
            self._keep(stream, series, number)

    def show(self, stream: int, message: Message) -> None:
        """A placeholder that came by a stream; it takes the place of the last one."""
        self._shown[stream, message.DESCRIPTOR.name] = message

    def shown(self, example: Placeholder) -> list[Placeholder]:
        """Those that are like the example."""
        found = [each for each in self._shown.values() if isinstance(each, type(example))]
        return [each for each in found if matches(example, each)]

    def drop(self, stream: int) -> None:
        """Forget all that came by a stream."""
        gone = [series for series, (owner, _) in self._values.items() if owner == stream]
        for series in gone:
            del self._values[series]
        self._counts.pop(stream, None)
        self._shown = {key: each for key, each in self._shown.items() if key[0] != stream}

    def describe(self) -> Iterator[Family]:
        """Nothing: what there is is known when it is there."""
        return iter(())

    def collect(self) -> Iterator[Family]:
        families: dict[str, Family] = {}
        for series, (_, value) in list(self._values.items()):
            if series.name not in families:
                families[series.name] = Family(series.name, "Measured at the edge.", "gauge")
            families[series.name].add_sample(series.name, dict(series.labels), value)
        yield from families.values()

    def _keep(self, stream: int, series: Series, value: float) -> None:
        owner, _ = self._values.get(series, (0, 0.0))
        if owner != stream:
            if self._counts[stream] == MOST_SERIES:
                log.warning("too many series", stream=stream, series=series.name)
                return
            self._counts[stream] += 1
            if owner in self._counts:
                self._counts[owner] -= 1
        self._values[series] = (stream, value)


class AppInstMetricsApi(AppInstMetricsApiServicer):
    def __init__(self, measured: Measured) -> None:
        self._measured = measured

    async def ShowAppInstMetrics(
        self, request: AppInstMetrics, context: Context
    ) -> AsyncIterator[AppInstMetrics]:
        for each in self._measured.shown(request):
            yield each


class CloudletMetricsApi(CloudletMetricsApiServicer):
    def __init__(self, measured: Measured) -> None:
        self._measured = measured

    async def ShowCloudletMetrics(
        self, request: CloudletMetrics, context: Context
    ) -> AsyncIterator[CloudletMetrics]:
        for each in self._measured.shown(request):
            yield each


def _label(text: str) -> str:
    """A label's name: those that begin with two underscores are Prometheus' own."""
    word = _word(text).lstrip("_")
    return word if word and not word[0].isdigit() else f"tag_{word}"


def _word(text: str) -> str:
    """A name as Prometheus takes them."""
    return _STRANGE.sub("_", text[:LONGEST]) or "_"
