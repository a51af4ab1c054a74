"""Instances as they stand, for those who show them and for those who carry them out."""

from datetime import datetime

from domain.appinst import AppInst
from domain.clusterinst import ClusterInst
from domain.frozen import Frozen
from domain.tracking import Phase
from domain.usage import Usage


class ClusterInstStanding(Frozen):
    key: str
    cluster: ClusterInst
    phase: Phase
    errors: tuple[str, ...] = ()


class AppInstStanding(Frozen):
    key: str
    instance: AppInst
    phase: Phase
    errors: tuple[str, ...] = ()
    runtime: tuple[str, ...] = ()
    """Containers, as its resource manager told of them."""
    created: datetime


class Report(Frozen):
    """What a resource manager says of one instance."""

    key: str
    phase: Phase
    errors: tuple[str, ...] = ()
    runtime: tuple[str, ...] = ()


class CloudletStanding(Frozen):
    """What is taken of a cloudlet, and by which clusters."""

    key: str
    operator: str
    name: str
    clusters: tuple[str, ...]
    usage: Usage


class ClusterStanding(Frozen):
    """What runs in a cluster, and how much that wants."""

    key: str
    cluster: ClusterInst
    apps: tuple[tuple[str, str, str], ...]
    """Developer, name and version."""
    ram: int = 0
    vcores: int = 0
    disk: int = 0
