"""What is made on a platform is called after what it is and a digest of its whole key, and carries
its owner: the kind and the key, written out. So a resource manager that has forgotten all that it
made knows it again. A name is never enough: the owner is compared before anything is taken for
one's own.

Releases up to 0.1 cut the digest to 32 bits and recorded no owner. What they made keeps its name,
and its owner is recorded once, as long as only one instance can have made it."""

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message

from agent.crm.replica import ident
from domain.naming import as_dns
from protos.gen.edge.app_inst_pb2 import AppInst, AppInstKey
from protos.gen.edge.cloudlet_pb2 import CloudletKey
from protos.gen.edge.clusterinst_pb2 import ClusterInst, ClusterInstKey

DIGEST_BYTES = 16
"""128 bits, which nobody finds a second key for."""

DIGEST_LENGTH = 26
"""Of those in base32, which has no capitals to lose."""

OWN_LENGTH = 63 - 1 - DIGEST_LENGTH
"""Of its own name: with the rest it is a DNS label."""

EARLIER_OWN_LENGTH = 40
EARLIER_MARK_LENGTH = 10
EARLIER_REST_LENGTH = 8

Instance: TypeAlias = ClusterInst | AppInst


def cluster(key: ClusterInstKey) -> str:
    return _name(key.cluster_key.name, key)


def app(key: AppInstKey) -> str:
    return _name(key.app_key.name, key)


def owner(instance: Instance) -> str:
    """What is recorded of what is made for an instance: the kind and the whole key."""
    key = MessageToDict(instance.key, preserving_proto_field_name=True)
    return f"{instance.DESCRIPTOR.name} {json.dumps(key, sort_keys=True, separators=(',', ':'))}"


def is_of(cloudlet: CloudletKey, owner: str) -> bool:
    """Whether an owner is an instance on a cloudlet."""
    key = parse(owner)
    if isinstance(key, AppInstKey):
        key = key.cluster_inst_key
    return key is not None and ident(key.cloudlet_key) == ident(cloudlet)


def parse(owner: str) -> AppInstKey | ClusterInstKey | None:
    """The key that an owner says. None: it is no instance."""
    kind, _, text = owner.partition(" ")
    key: Any = {"AppInst": AppInstKey, "ClusterInst": ClusterInstKey}.get(kind, lambda: None)()
    if key is None:
        return None
    try:
        ParseDict(json.loads(text), key)
    except (ValueError, ParseError, RecursionError):
        return None
    return key  # type: ignore[no-any-return]


def earlier(instance: Instance) -> str:
    """What releases up to 0.1 called what they made for an instance."""
    key: Any = instance.key
    is_app = isinstance(instance, AppInst)
    own = key.app_key.name if is_app else key.cluster_key.name
    cloudlet = key.cluster_inst_key.cloudlet_key if is_app else key.cloudlet_key
    rest = hashlib.sha256(ident(key)).hexdigest()[:EARLIER_REST_LENGTH]
    return f"{as_dns(own)[:EARLIER_OWN_LENGTH].strip('-')}-{_mark(cloudlet)}-{rest}"


def is_earlier(cloudlet: CloudletKey, name: str) -> bool:
    """Whether something has the name of what such a release made for a cloudlet."""
    pattern = rf".+-{_mark(cloudlet)}-[0-9a-f]{{{EARLIER_REST_LENGTH}}}"
    return re.fullmatch(pattern, name) is not None


def is_given(name: str) -> bool:
    """Whether this release or an earlier one may call something so."""
    now = rf"(.+-)?[a-z2-7]{{{DIGEST_LENGTH}}}"
    before = rf".+-[0-9a-f]{{{EARLIER_MARK_LENGTH}}}-[0-9a-f]{{{EARLIER_REST_LENGTH}}}"
    return re.fullmatch(f"{now}|{before}", name) is not None


def only_makers(known: Iterable[Instance]) -> Mapping[str, Instance]:
    """By such a name, the instance that it was made for. A name that two of these have had is left
    out: nobody can tell for which of them it was made."""
    makers = [(earlier(instance), instance) for instance in known]
    times = Counter(name for name, _ in makers)
    return {name: instance for name, instance in makers if times[name] == 1}


def spoken(instance: Any) -> str:
    """What an instance is called in logs and in plans of what shall go wrong."""
    key = instance.key
    if isinstance(instance, AppInst):
        return f"{key.app_key.name} in {key.cluster_inst_key.cluster_key.name}"
    return str(key.cluster_key.name)


def _name(own: str, key: Message) -> str:
    digest = hashlib.sha256(ident(key)).digest()[:DIGEST_BYTES]
    rest = base64.b32encode(digest).decode().rstrip("=").lower()
    own = re.sub("[^a-z0-9-]", "", as_dns(own))[:OWN_LENGTH].strip("-")
    return f"{own}-{rest}" if own else rest


def _mark(cloudlet: CloudletKey) -> str:
    return hashlib.sha256(ident(cloudlet)).hexdigest()[:EARLIER_MARK_LENGTH]
