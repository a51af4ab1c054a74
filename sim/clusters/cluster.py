"""What a simulated Kubernetes cluster consists of, as its etcd would hold it."""

from typing import Any

from pydantic import BaseModel, Field

from domain.frozen import Frozen
from domain.machine import Role
from sim.clusters import authority as authorities
from sim.clusters.authority import Pair
from sim.ledger import Record

ADMIN = "kubernetes-admin"
ADMINS = "kubeadm:cluster-admins"
"""The user of admin.conf, and the group that makes it one."""


class Token(BaseModel):
    """A bootstrap token. It is called by its id, the six characters before the dot."""

    secret: str
    description: str = ""
    expires: float | None = None


class UploadedCerts(BaseModel):
    """The secret kubeadm-certs: which key opens it, and until when it is there."""

    key_digest: str
    expires: float


class Member(BaseModel):
    """An etcd member. A learner has no vote until it is promoted."""

    id: int
    name: str
    address: str
    learner: bool = False
    healthy: bool = True


class Taint(Frozen):
    key: str
    effect: str
    value: str = ""


class Node(Record):
    """A Node object, as far as a kubelet and an administrator shape it."""

    cluster: str
    name: str
    uid: str
    role: Role
    address: str
    version: str
    """The kubelet's that runs, without a v."""
    series: str = "jammy"
    created: float
    joined: float
    turned: float = 0
    """When its host last went down or came back."""
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    taints: list[Taint] = Field(default_factory=list)
    unschedulable: bool = False
    closed: float = 0
    """When it was last made unschedulable."""
    revision: int = 0


class Thing(Record):
    """An API object of any other kind, kept for the API servers as they like it."""

    cluster: str
    key: str
    body: dict[str, Any]


class Cluster(Record):
    """What a cluster is apart from its nodes and objects."""

    uid: str
    endpoint: str
    """The name the API is reached under, without the port."""
    port: int
    version: str
    """Which its configuration names. Upgrades change it with the first control plane."""
    created: float
    pod_subnet: str
    service_subnet: str
    authority: Pair
    admin: Pair
    service_account_key: str
    etcd_authority: Pair | None = None
    proxy_authority: Pair | None = None
    """Of their own. None: the cluster was made by a simulator that had but one."""
    tokens: dict[str, Token] = Field(default_factory=dict)
    certs: UploadedCerts | None = None
    members: dict[str, Member] = Field(default_factory=dict)
    """By node name."""
    servers: dict[str, Pair] = Field(default_factory=dict)
    """The serving certificate of each control-plane host, by address."""
    apis: dict[str, str] = Field(default_factory=dict)
    """The version of the control plane that runs on each of these hosts, by address."""
    network_since: float | None = None

    @property
    def etcd_root(self) -> Pair:
        return self.etcd_authority or self.authority

    @property
    def proxy_root(self) -> Pair:
        return self.proxy_authority or self.authority

    @property
    def called(self) -> str:
        """What people, and faults, call it: the first label of its endpoint."""
        return self.endpoint.partition(".")[0]

    @property
    def kubeconfig(self) -> str:
        """The text of admin.conf."""
        server = f"https://{self.endpoint}:{self.port}"
        return authorities.kubeconfig(server, self.authority.certificate, ADMIN, self.admin)


class Founding(Frozen):
    """What `kubeadm init` makes a cluster of. The same uid is the same cluster."""

    uid: str
    endpoint: str
    port: int
    version: str
    name: str
    address: str
    series: str = "jammy"
    alternatives: tuple[str, ...] = ()
    pod_subnet: str = "10.244.0.0/16"
    service_subnet: str = "10.96.0.0/12"


class Joiner(Frozen):
    """A host that becomes a node."""

    name: str
    address: str
    version: str
    series: str = "jammy"
    taints: tuple[Taint, ...] = ()
