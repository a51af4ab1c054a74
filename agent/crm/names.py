"""What is made on a platform is called so that it can be told whose it is: after what it is, then
the cloudlet's mark, then what tells it from others of its name. So a resource manager that has
forgotten all that it made knows it again, and takes nobody else's for its own."""

import hashlib
import re
from typing import Any, TypeAlias

from google.protobuf.message import Message

from agent.crm.replica import ident
from domain.naming import as_dns
from protos.gen.edge.app_inst_pb2 import AppInst, AppInstKey
from protos.gen.edge.cloudlet_pb2 import CloudletKey
from protos.gen.edge.clusterinst_pb2 import ClusterInst, ClusterInstKey

OWN_LENGTH = 40
"""Of its own name: with the rest it is a DNS label."""

MARK_LENGTH = 10
REST_LENGTH = 8

Instance: TypeAlias = ClusterInst | AppInst


def cluster(key: ClusterInstKey) -> str:
    return _name(key.cluster_key.name, key.cloudlet_key, key)


def app(key: AppInstKey) -> str:
    return _name(key.app_key.name, key.cluster_inst_key.cloudlet_key, key)


def is_of(cloudlet: CloudletKey, name: str) -> bool:
    """Whether something was made for a cloudlet."""
    return re.fullmatch(rf".+-{_mark(cloudlet)}-[0-9a-f]{{{REST_LENGTH}}}", name) is not None


def spoken(instance: Any) -> str:
    """What an instance is called in logs and in plans of what shall go wrong."""
    key = instance.key
    if isinstance(instance, AppInst):
        return f"{key.app_key.name} in {key.cluster_inst_key.cluster_key.name}"
    return str(key.cluster_key.name)


def _name(own: str, cloudlet: CloudletKey, key: Message) -> str:
    rest = _digest(key)[:REST_LENGTH]
    return f"{as_dns(own)[:OWN_LENGTH].strip('-')}-{_mark(cloudlet)}-{rest}"


def _mark(cloudlet: CloudletKey) -> str:
    return _digest(cloudlet)[:MARK_LENGTH]


def _digest(key: Message) -> str:
    return hashlib.sha256(ident(key)).hexdigest()
