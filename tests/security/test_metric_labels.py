"""A16: no name that a resource manager gives breaks what Prometheus reads."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from api.edge.metrics import Measured
from protos.gen.edge.metric_pb2 import Metric, MetricTag, MetricVal

NAMES = ("__name__", "__", "1st", "", "a-b", "é", "job")


def test_tags_become_labels_that_prometheus_takes() -> None:
    measured = Measured()
    tags = [MetricTag(name=name, val=f"v{number}") for number, name in enumerate(NAMES)]
    measured.put(1, Metric(name="load", tags=tags, vals=[MetricVal(name="one", dval=1.5)]))
    registry = CollectorRegistry()
    registry.register(measured)
    text = generate_latest(registry).decode()
    [family] = list(text_string_to_metric_families(text))
    [sample] = family.samples
    assert (sample.name, sample.value) == ("edge_load_one", 1.5)
    assert sample.labels["name__"] == "v0"
    assert sample.labels["tag_1st"] == "v2"
    assert not [name for name in sample.labels if name.startswith("__")]
