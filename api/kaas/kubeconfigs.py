"""Kubeconfigs as they are given out: named after their cluster, and leading to where it is."""

from collections.abc import Sequence
from time import monotonic
from typing import Any

import yaml

from domain import ports
from domain.cluster import Cluster
from domain.kubeconfig import rewritten
from domain.machine import Role, SlotPhase, SlotState
from store.clusters import Clusters
from store.gather import Gather
from store.secrets import Secrets

# The parser in C is some ten times as fast, and not in every build of the library.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

FRESH_SECONDS = 1.0
"""How long one that was made is given to others who ask: they tend to ask in crowds."""

FRESH = 100
"""So many are kept in memory. Each is a credential, and a few kilobytes."""

STANDING = {SlotPhase.HEALTHY: 0, SlotPhase.JOINED: 1}
"""Which control-plane node to lead to, where the endpoint's name cannot be asked for."""


class Kubeconfigs:
    def __init__(self, vault: Secrets, clusters: Clusters, *, api_port: int, resolve: bool) -> None:
        self._vault = vault
        self._clusters = clusters
        self._api_port = api_port
        self._resolve = resolve
        self._gather = Gather[Cluster, str](self._made)
        self._fresh: dict[str, tuple[float, str]] = {}

    async def of(self, cluster: Cluster) -> str:
        """The cluster's kubeconfig, empty unless it may be given out. Its content may be a second
        old; whether it may be given out is as fresh as `cluster`."""
        if not cluster.published:
            return ""
        until, made = self._fresh.get(cluster.uid, (0.0, ""))
        if until < monotonic():
            made = await self._gather.ask(cluster)
        return made

    async def _made(self, clusters: Sequence[Cluster]) -> Sequence[str | Exception]:
        made: dict[Cluster, str | Exception] = {}
        for cluster in clusters:
            if cluster not in made:
                try:
                    made[cluster] = await self._make(cluster)
                except Exception as error:  # told to those who asked for this one
                    made[cluster] = error
        return [made[cluster] for cluster in clusters]

    async def _make(self, cluster: Cluster) -> str:
        kept = await self._vault.open(ports.kubeconfig(cluster.uid))
        host = await self._host(cluster)
        server = f"https://{f'[{host}]' if ':' in host else host}:{self._api_port}"
        document = rewritten(yaml.load(kept, LOADER), cluster=cluster.name, server=server)  # noqa: S506 (a safe one)
        made = str(yaml.dump(document, Dumper=DUMPER, sort_keys=False))
        self._fresh.pop(cluster.uid, None)
        self._fresh[cluster.uid] = (monotonic() + FRESH_SECONDS, made)
        if len(self._fresh) > FRESH:
            del self._fresh[next(iter(self._fresh))]
        return made

    async def _host(self, cluster: Cluster) -> str:
        """The endpoint's name, or the address of a control-plane node that works."""
        if self._resolve:
            return cluster.endpoint
        slots = (await self._clusters.nodes(cluster.name)).slots
        able = sorted(filter(_leads, slots), key=lambda state: STANDING[state.phase])
        return able[0].address if able else cluster.endpoint


def _leads(state: SlotState) -> bool:
    is_control_plane = state.slot.role is Role.CONTROL_PLANE
    return is_control_plane and state.phase in STANDING and bool(state.address)
