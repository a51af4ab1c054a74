"""Between the messages of `v1alpha` and what they mean."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

from api.rkt.states import APP_STATES, FORMATS, KINDS, POD_STATES
from domain.errors import Invalid
from domain.happening import SECOND_NS, Happening, Interest
from domain.logline import Wanted
from domain.pod import App, Image, ImageFilter, Network, Pairs, Pod, PodFilter
from protos.gen.rkt import api_pb2 as pb

FILTERS = 1000
"""More filters, or more of anything inside one, than anybody means."""

Message = TypeVar("Message")


def pod_filters(filters: Sequence[pb.PodFilter]) -> list[PodFilter]:
    words = {number: state for state, number in POD_STATES.items()}
    return [
        PodFilter(
            ids=_counted("ids", one.ids),
            states=tuple(words.get(state) for state in _counted("states", one.states)),
            app_names=_counted("app_names", one.app_names),
            image_ids=_counted("image_ids", one.image_ids),
            network_names=_counted("network_names", one.network_names),
            annotations=_meant("annotations", one.annotations),
            cgroups=_counted("cgroups", one.cgroups),
            pod_sub_cgroups=_counted("pod_sub_cgroups", one.pod_sub_cgroups),
        )
        for one in _counted("filters", filters)
    ]


def image_filters(filters: Sequence[pb.ImageFilter]) -> list[ImageFilter]:
    return [
        ImageFilter(
            ids=_counted("ids", one.ids),
            prefixes=_counted("prefixes", one.prefixes),
            base_names=_counted("base_names", one.base_names),
            keywords=_counted("keywords", one.keywords),
            labels=_meant("labels", one.labels),
            imported_after=one.imported_after,
            imported_before=one.imported_before,
            annotations=_meant("annotations", one.annotations),
            full_names=_counted("full_names", one.full_names),
        )
        for one in _counted("filters", filters)
    ]


def interest(asked: pb.EventFilter) -> Interest:
    words = {number: kind for kind, number in KINDS.items()}
    meant = Interest(
        kinds=tuple(words.get(kind) for kind in _counted("types", asked.types)),
        ids=_counted("ids", asked.ids),
        names=_counted("names", asked.names),
        since=asked.since_time,
        until=asked.until_time,
    )
    meant.check()
    return meant


def wanted(asked: pb.GetLogsRequest) -> Wanted:
    meant = Wanted(
        app=asked.app_name,
        lines=asked.lines,
        follow=asked.follow,
        since=asked.since_time,
        until=asked.until_time,
    )
    meant.check()
    return meant


def pod(one: Pod) -> pb.Pod:
    return pb.Pod(
        id=one.id,
        pid=one.pid,
        state=POD_STATES[one.state],
        apps=[app(each) for each in one.apps],
        networks=[network(each) for each in one.networks],
        manifest=one.manifest.encode(),
        annotations=pairs(one.annotations),
        cgroup=one.cgroup,
        created_at=one.created_ns,
        started_at=one.started_ns,
        gc_marked_at=one.marked_ns,
    )


def app(one: App) -> pb.App:
    return pb.App(
        name=one.name,
        image=image(one.image),
        state=APP_STATES[one.state],
        exit_code=one.exit_code,
        annotations=pairs(one.annotations),
    )


def image(one: Image) -> pb.Image:
    return pb.Image(
        base_format=pb.ImageFormat(type=FORMATS[one.format], version=one.format_version),
        id=one.id,
        name=one.name,
        version=one.version,
        import_timestamp=one.imported,
        manifest=one.manifest.encode(),
        size=one.size,
        annotations=pairs(one.annotations),
        labels=pairs(one.labels),
    )


def network(one: Network) -> pb.Network:
    return pb.Network(name=one.name, ipv4=one.ipv4, ipv6=one.ipv6)


def event(one: Happening) -> pb.Event:
    named = {"from": one.name}  # a keyword in Python
    return pb.Event(
        type=KINDS[one.kind],
        id=one.id,
        time=one.time_ns // SECOND_NS,
        data=pairs(one.data),
        **named,
    )


def pairs(told: Pairs) -> Iterable[pb.KeyValue]:
    return [pb.KeyValue(Key=name, value=value) for name, value in told]


def _meant(name: str, told: "RepeatedCompositeFieldContainer[pb.KeyValue]") -> Pairs:
    return tuple((each.Key, each.value) for each in _counted(name, told))


def _counted(name: str, told: Sequence[Message]) -> tuple[Message, ...]:
    if len(told) > FILTERS:
        raise Invalid(
            f"{name} has {len(told)} entries, and {FILTERS} are the most",
            subject=name,
            reason="FILTER_TOO_LONG",
            do="ask several times",
        )
    return tuple(told)
