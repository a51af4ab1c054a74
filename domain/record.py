"""Records: what people describe at the edge, and who names whom.

A record is bytes that only its contract understands, under a key. What rules have to know of it is
said beside the bytes: what it names (links), and facts in the words of the domain."""

from enum import StrEnum

from domain.frozen import Frozen
from domain.refusal import Refusal


class Noun(StrEnum):
    """What there is at the edge, by the names of the messages that describe it."""

    DEVELOPER = "Developer"
    OPERATOR = "Operator"
    FLAVOR = "Flavor"
    CLUSTER = "Cluster"
    """A template: a cluster that runs is another noun."""
    APP = "App"
    CLOUDLET = "Cloudlet"
    CLOUDLET_INFO = "CloudletInfo"
    CLUSTER_INST = "ClusterInst"
    APP_INST = "AppInst"
    CONTROLLER = "Controller"
    """An API process. It is no record itself; what resource managers say names the one they say it
    to."""
    CLOUDLET_REFS = "CloudletRefs"
    CLUSTER_REFS = "ClusterRefs"
    CLUSTER_INST_INFO = "ClusterInstInfo"
    APP_INST_INFO = "AppInstInfo"
    ANDROID_PACKAGE = "AndroidPackage"
    """Nobody describes one; apps name them."""


class Link(Frozen):
    """That a record names another. What is named need not exist."""

    to: Noun
    key: str
    yields: bool = False
    """Whether the one who names gives way when what it names is deleted."""


class Record(Frozen):
    noun: Noun
    key: str
    """JSON. Records are sorted by it, as bytes."""
    value: bytes
    links: tuple[Link, ...] = ()
    facts: str = ""
    """JSON of the domain's model, if a rule reads it."""


class Need(Frozen):
    """What has to exist for a record to be accepted."""

    to: Noun
    key: str
    refusal: Refusal
    name: str = ""
    """What the refusal calls it."""
    strict: bool = False
    """Whether it is only asked for with strict references, and then after everything else."""


class Use(Frozen):
    """Who keeps a record from being deleted by naming it, unless they yield."""

    by: Noun
    refusal: Refusal
    strict: bool = False


USES: dict[Noun, tuple[Use, ...]] = {
    Noun.DEVELOPER: (
        Use(by=Noun.APP, refusal=Refusal.DEVELOPER_IN_USE),
        Use(by=Noun.CLUSTER_INST, refusal=Refusal.DEVELOPER_HAS_CLUSTER, strict=True),
    ),
    Noun.OPERATOR: (Use(by=Noun.CLOUDLET, refusal=Refusal.OPERATOR_IN_USE),),
    Noun.FLAVOR: (
        Use(by=Noun.CLUSTER_INST, refusal=Refusal.FLAVOR_IN_CLUSTER),
        Use(by=Noun.APP, refusal=Refusal.FLAVOR_IN_USE),
        Use(by=Noun.APP_INST, refusal=Refusal.FLAVOR_IN_INSTANCE),
        Use(by=Noun.CLUSTER, refusal=Refusal.FLAVOR_IN_TEMPLATE, strict=True),
    ),
    Noun.CLUSTER: (Use(by=Noun.CLUSTER_INST, refusal=Refusal.CLUSTER_IN_USE),),
    Noun.CLOUDLET: (
        Use(by=Noun.APP_INST, refusal=Refusal.CLOUDLET_IN_USE),
        Use(by=Noun.CLUSTER_INST, refusal=Refusal.CLOUDLET_HAS_CLUSTER),
    ),
    Noun.APP: (Use(by=Noun.APP_INST, refusal=Refusal.APP_IN_USE),),
    Noun.CLUSTER_INST: (Use(by=Noun.APP_INST, refusal=Refusal.CLUSTERINST_IN_USE),),
}
"""In the order in which clients are told. What stands in no line is never in use. Instances yield
to nothing but their cloudlets, and are deleted by an operation first, since they run somewhere."""
