"""What the controller has told: what there is, by its key.

A connection begins without a word of what is gone. So whatever has not been told again by the time
that everything has been told is gone too."""

from collections.abc import Collection
from typing import Any, TypeVar

from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.message import Message

from protos.gen.edge.app_inst_pb2 import AppInst, AppInstKey
from protos.gen.edge.app_pb2 import App, AppKey
from protos.gen.edge.cloudlet_pb2 import Cloudlet
from protos.gen.edge.clusterinst_pb2 import ClusterInst, ClusterInstKey
from protos.gen.edge.flavor_pb2 import Flavor, FlavorKey

KINDS: tuple[Any, ...] = (Flavor, App, AppInst, Cloudlet, ClusterInst)
"""What is wanted, by the names that the contract gives."""

NAMES = {message.DESCRIPTOR.full_name: message for message in KINDS}

Found = TypeVar("Found", bound=Message)


def kind(packed: Packed) -> str:
    """What something is, as in a handshake."""
    return str(packed.type_url).rpartition("/")[2]


def ident(key: Message) -> bytes:
    """A key as something to find things by."""
    return key.SerializeToString(deterministic=True)


class Replica:
    def __init__(self) -> None:
        self._there: dict[str, dict[bytes, Any]] = {name: {} for name in NAMES}
        self._told: dict[str, set[bytes]] = {name: set() for name in NAMES}

    def begin(self) -> None:
        """A connection begins. What is there stays until everything has been told."""
        for told in self._told.values():
            told.clear()

    def put(self, packed: Packed) -> Any:
        """Something is so from now on. Returns it."""
        name = kind(packed)
        message: Any = NAMES[name].FromString(packed.value)
        key = ident(message.key)
        self._there[name][key] = message
        self._told[name].add(key)
        return message

    def drop(self, packed: Packed) -> Any:
        """Something is gone; of what was sent only the key means anything. Returns what it was,
        None if it was not there."""
        name = kind(packed)
        message: Any = NAMES[name].FromString(packed.value)
        return self._there[name].pop(ident(message.key), None)

    def prune(self) -> None:
        """Everything has been told."""
        for name, there in self._there.items():
            for key in [key for key in there if key not in self._told[name]]:
                del there[key]

    def app(self, key: AppKey) -> App | None:
        return self._get(App, key)

    def flavor(self, key: FlavorKey) -> Flavor | None:
        return self._get(Flavor, key)

    def cluster(self, key: ClusterInstKey) -> ClusterInst | None:
        return self._get(ClusterInst, key)

    def instance(self, key: AppInstKey) -> AppInst | None:
        return self._get(AppInst, key)

    def instances(self) -> list[Any]:
        """All that the controller knows of what runs."""
        return [each for message in (ClusterInst, AppInst) for each in self._of(message).values()]

    def keys(self, message: type[Message]) -> Collection[bytes]:
        """What there is of a kind."""
        return self._of(message).keys()

    def _of(self, message: type[Message]) -> dict[bytes, Any]:
        return self._there[message.DESCRIPTOR.full_name]

    def _get(self, message: type[Found], key: Message) -> Found | None:
        return self._of(message).get(ident(key))
