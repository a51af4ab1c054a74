"""What an operation on an instance at the edge was accepted to do."""

from domain.appinst import AppInst
from domain.awaiting import Aim
from domain.frozen import Frozen
from domain.operation import Kind
from domain.override import Override
from domain.record import Noun


class InstancePlan(Frozen):
    noun: Noun
    aim: Aim
    key: str
    """Of the instance. An app's instance into a cluster that is made for it has no row yet."""
    cloudlet: str
    override: Override = Override.NONE
    wanted: AppInst | None = None
    """The instance, while its cluster is being made."""
    cluster: str = ""
    """The key of the cluster that an app's instance is in, or is to be."""
    nested: str = ""
    """The operation that makes that cluster."""


KINDS: dict[tuple[Noun, Aim], Kind] = {
    (Noun.CLUSTER_INST, Aim.CREATE): Kind.CREATE_CLUSTERINST,
    (Noun.CLUSTER_INST, Aim.UPDATE): Kind.UPDATE_CLUSTERINST,
    (Noun.CLUSTER_INST, Aim.DELETE): Kind.DELETE_CLUSTERINST,
    (Noun.APP_INST, Aim.CREATE): Kind.CREATE_APPINST,
    (Noun.APP_INST, Aim.DELETE): Kind.DELETE_APPINST,
    (Noun.CLOUDLET, Aim.DELETE): Kind.DELETE_CLOUDLET,
}


def subject(noun: Noun, key: str) -> str:
    """What an operation on an instance holds against others."""
    return f"{noun.lower()}/{key}"
