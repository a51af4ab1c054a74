"""The words of notify: what is told and heard, in which order, and how it is put.

There are two kinds. Records are told by their keys: what one is now, or that there is none. All
else is said once to whom it concerns, and its action means nothing."""

import json
from typing import Any

from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

from api.edge import keys
from domain.record import Noun
from protos.gen.edge import (
    app_pb2,
    cloudlet_pb2,
    cluster_pb2,
    flavor_pb2,
    metric_pb2,
    node_pb2,
)
from protos.gen.edge.notice_pb2 import DELETE, SENDALL_END, UPDATE, VERSION, Notice

PROTOCOL = 1
"""The only version of the protocol that there is."""

TOLD: dict[Noun, type[Message]] = {
    Noun.FLAVOR: flavor_pb2.Flavor,
    Noun.CLOUDLET: cloudlet_pb2.Cloudlet,
    Noun.CLUSTER: cluster_pb2.Cluster,
    Noun.APP: app_pb2.App,
}
"""The records we tell of, each after what it needs."""

HEARD: tuple[type[Message], ...] = (*(cloudlet_pb2.CloudletInfo, metric_pb2.Metric, node_pb2.Node),)
"""What we want to hear."""

_PREFIX = "type.googleapis.com/"

_PLACES: dict[Noun, tuple[str, ...]] = {Noun.CLOUDLET: ()}
"""Where in a key its cloudlet stands. Whoever asked for its own cloudlets alone is told of none of
these before it has said which they are."""


def name(message: type[Message]) -> str:
    """What a kind of message is called in a handshake."""
    return str(message.DESCRIPTOR.full_name)


NOUNS: dict[str, Noun] = {name(message): noun for noun, message in TOLD.items()}


def hello(asked: Notice) -> Notice:
    """Our half of the handshake."""
    version = min(asked.version, PROTOCOL)
    return Notice(action=VERSION, version=version, want_objs=[name(each) for each in HEARD])


def everything_told() -> Notice:
    return Notice(action=SENDALL_END)


def present(noun: Noun, value: bytes) -> Notice:
    """What a record is, as the bytes it is kept as."""
    packed = Packed(type_url=_PREFIX + name(TOLD[noun]), value=value)
    return Notice(action=UPDATE, any=packed)


def gone(noun: Noun, key: str) -> Notice:
    """That there is no such record."""
    blank: Any = TOLD[noun]()
    ParseDict(json.loads(key), blank.key)
    blank.key.SetInParent()
    packed = Packed(type_url=_PREFIX + name(TOLD[noun]), value=blank.SerializeToString())
    return Notice(action=DELETE, any=packed)


def once(message: Message) -> Notice:
    """Something that is said once."""
    packed = Packed(type_url=_PREFIX + name(type(message)), value=message.SerializeToString())
    return Notice(action=UPDATE, any=packed)


def is_placed(noun: Noun) -> bool:
    """Whether records of a noun are on cloudlets."""
    return noun in _PLACES


def cloudlet(noun: Noun, key: str) -> str:
    """The key of the cloudlet that a record is on."""
    inner = json.loads(key)
    for part in _PLACES[noun]:
        inner = inner[part]
    return keys.put(inner)


def kind(notice: Notice) -> str:
    """What a notice is about, as in a handshake. Empty: about nothing."""
    return str(notice.any.type_url).rpartition("/")[2]
