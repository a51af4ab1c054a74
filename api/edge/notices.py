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
    app_inst_pb2,
    app_pb2,
    cloudlet_pb2,
    cluster_pb2,
    clusterinst_pb2,
    exec_pb2,
    flavor_pb2,
    metric_pb2,
    node_pb2,
)
from protos.gen.edge.common_pb2 import DELETE_REQUESTED, DELETING
from protos.gen.edge.notice_pb2 import DELETE, SENDALL_END, UPDATE, VERSION, Notice

PROTOCOL = 1
"""The only version of the protocol that there is."""

TOLD: dict[Noun, type[Message]] = {
    Noun.FLAVOR: flavor_pb2.Flavor,
    Noun.CLOUDLET: cloudlet_pb2.Cloudlet,
    Noun.CLUSTER: cluster_pb2.Cluster,
    Noun.CLUSTER_INST: clusterinst_pb2.ClusterInst,
    Noun.APP: app_pb2.App,
    Noun.APP_INST: app_inst_pb2.AppInst,
}
"""The records we tell of, each after what it needs."""

HEARD: tuple[type[Message], ...] = (
    *(cloudlet_pb2.CloudletInfo, app_inst_pb2.AppInstInfo, clusterinst_pb2.ClusterInstInfo),
    *(metric_pb2.Metric, node_pb2.Node, exec_pb2.ExecRequest),
)
"""What we want to hear."""

INSTANCES = (Noun.CLUSTER_INST, Noun.APP_INST)
"""What runs on cloudlets."""

_PREFIX = "type.googleapis.com/"

_PLACES: dict[Noun, tuple[str, ...]] = {
    Noun.CLOUDLET: (),
    Noun.CLUSTER_INST: ("cloudlet_key",),
    Noun.APP_INST: ("cluster_inst_key", "cloudlet_key"),
}
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
    """What a record is, as the bytes of its message."""
    packed = Packed(type_url=_PREFIX + name(TOLD[noun]), value=value)
    return Notice(action=UPDATE, any=packed)


def asks_to_delete(noun: Noun, value: bytes) -> bool:
    """Whether what is said of an instance has its resource manager delete it."""
    return noun in INSTANCES and _instance(noun, value).state in (DELETE_REQUESTED, DELETING)


def asked_again(noun: Noun, value: bytes) -> bytes:
    """What is said of an instance to whoever may have been started anew: it does nothing upon
    DELETING, so it is asked to delete."""
    if not asks_to_delete(noun, value):
        return value
    message = _instance(noun, value)
    message.state = DELETE_REQUESTED
    return bytes(message.SerializeToString())


def _instance(noun: Noun, value: bytes) -> Any:
    return TOLD[noun].FromString(value)


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


def app(key: str) -> str:
    """The key of the app that an instance is of."""
    return keys.put(json.loads(key)["app_key"])


def kind(notice: Notice) -> str:
    """What a notice is about, as in a handshake. Empty: about nothing."""
    return str(notice.any.type_url).rpartition("/")[2]
