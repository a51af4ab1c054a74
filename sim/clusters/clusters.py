"""All simulated Kubernetes clusters of a site, and which hosts keep them alive.

Hosts change them by kubeadm, the API servers by requests. Both see one state, and a cluster whose
members have lost their majority answers neither. It lasts until its last control-plane host is
wiped."""

import secrets
from typing import Any, Protocol
from uuid import uuid4

from domain.machine import Role
from sim.clusters import authority
from sim.clusters.cluster import (
    ADMIN,
    ADMINS,
    Cluster,
    Founding,
    Joiner,
    Member,
    Node,
    Taint,
    Thing,
    Token,
    UploadedCerts,
)
from sim.clusters.tokens import digest
from sim.faults import Faults
from sim.ledger import Ledger
from sim.pace import Clock, Pace

CONTROL_PLANE_LABEL = "node-role.kubernetes.io/control-plane"


class ApiServers(Protocol):
    """Who serves the Kubernetes API of a cluster, one server per control-plane host.

    Starting what runs and stopping what does not run change nothing. A server outlives a lost
    majority: it asks `SimulatedClusters.alive` for every request."""

    async def serve(self, cluster_uid: str, address: str) -> None:
        """Answer on `https://<address>:<the cluster's port>`."""

    async def stop(self, address: str) -> None:
        """Close that server and every connection to it."""


class SimulatedClusters:
    """All clusters of a site. Every change is in the ledger before the method returns."""

    def __init__(self, *, ledger: Ledger, clock: Clock, pace: Pace, faults: Faults) -> None:
        self._ledger = ledger
        self._faults = faults
        self._clock = clock
        self._pace = pace
        self._servers: ApiServers | None = None
        self._running: dict[str, tuple[str, str]] = {}
        self._clusters = ledger.recall("cluster", Cluster)
        self._nodes: dict[str, dict[str, Node]] = {uid: {} for uid in self._clusters}
        for node in ledger.recall("cluster-node", Node).values():
            self._nodes[node.cluster][node.name] = node
        self._things: dict[str, dict[str, dict[str, Any]]] = {uid: {} for uid in self._clusters}
        for thing in ledger.recall("cluster-thing", Thing).values():
            self._things[thing.cluster][thing.key] = thing.body

    def serve_with(self, servers: ApiServers) -> None:
        """Who serves from now on. Said once, before the first host starts."""
        self._servers = servers

    def get(self, uid: str) -> Cluster | None:
        return self._clusters.get(uid)

    def all(self) -> list[Cluster]:
        return list(self._clusters.values())

    def by_endpoint(self, endpoint: str) -> Cluster | None:
        """The cluster the name leads to: the youngest, if more than one was made under it."""
        found = [cluster for cluster in self._clusters.values() if cluster.endpoint == endpoint]
        return found[-1] if found else None

    def alive(self, uid: str) -> bool:
        """Whether the API can answer: a majority of the voting members runs and is healthy."""
        cluster = self._clusters.get(uid)
        if cluster is None:
            return False
        voters = [member for member in cluster.members.values() if not member.learner]
        well = [member for member in voters if self.member_well(uid, member)]
        return len(well) > len(voters) // 2

    def member_well(self, uid: str, member: Member) -> bool:
        if self._faults.meet(f"etcd {self._clusters[uid].called} {member.name}") is not None:
            return False
        return member.healthy and self._running.get(member.address) == (uid, member.name)

    def serves(self, uid: str, address: str) -> bool:
        """Whether a control-plane host of the cluster is up there."""
        cluster = self._clusters.get(uid)
        at, _ = self._running.get(address, ("", ""))
        return cluster is not None and address in cluster.servers and at == uid

    def node(self, uid: str, name: str) -> Node | None:
        return self._nodes.get(uid, {}).get(name)

    def nodes(self, uid: str) -> list[Node]:
        return list(self._nodes.get(uid, {}).values())

    def node_runs(self, uid: str, name: str) -> bool:
        """Whether the node's host is up, Ready or not."""
        node = self.node(uid, name)
        return node is not None and self._running.get(node.address) == (uid, name)

    def node_ready(self, uid: str, name: str) -> bool:
        """Whether a node is Ready: its host runs, the pod network is there, and both for long
        enough."""
        node, cluster = self.node(uid, name), self._clusters.get(uid)
        if node is None or cluster is None or cluster.network_since is None:
            return False
        since = max(node.joined, cluster.network_since) + self._pace.node_ready
        return self._running.get(node.address) == (uid, name) and self._clock.now() >= since

    def objects(self, uid: str) -> dict[str, dict[str, Any]]:
        """The API objects that are not nodes, by a key of the API's own choice. To be read only:
        `put_object` and `drop_object` change them."""
        return self._things.get(uid, {})

    def token_known(self, uid: str, token: str) -> bool:
        """Whether there is a token of that id: one that has run out is gone."""
        known = self._clusters[uid].tokens.get(token.partition(".")[0])
        if known is None or self._faults.meet(f"token {self._clusters[uid].called}") is not None:
            return False
        return known.expires is None or self._clock.now() < known.expires

    def token_vouches(self, uid: str, token: str) -> bool:
        """Whether the secret is that of the token of that id."""
        identity, _, secret = token.partition(".")
        known = self._clusters[uid].tokens[identity]
        return secrets.compare_digest(known.secret.encode(), secret.encode())

    async def initialise(self, founding: Founding) -> Cluster:
        """Make a cluster with one member and one control-plane node, and let its API answer."""
        cluster = self.found(founding)
        await self.host_started(founding.address, founding.uid, founding.name)
        return cluster

    def found(self, founding: Founding) -> Cluster:
        """Make a cluster whose only host is not up yet. The same uid again is the same cluster."""
        if (known := self._clusters.get(founding.uid)) is not None:
            return known
        root = authority.authority("kubernetes")
        cluster = Cluster(
            uid=founding.uid,
            endpoint=founding.endpoint,
            port=founding.port,
            version=founding.version,
            created=self._clock.now(),
            pod_subnet=founding.pod_subnet,
            service_subnet=founding.service_subnet,
            authority=root,
            admin=authority.client(root, ADMIN, ADMINS),
            service_account_key=authority.signing_key(),
            etcd_authority=authority.authority("etcd-ca"),
            proxy_authority=authority.authority("front-proxy-ca"),
        )
        self._clusters[cluster.uid] = cluster
        self._nodes[cluster.uid], self._things[cluster.uid] = {}, {}
        joiner = Joiner(
            name=founding.name,
            address=founding.address,
            version=founding.version,
            series=founding.series,
        )
        self._add_member(cluster, joiner, learner=False, alternatives=founding.alternatives)
        self._add_node(cluster, joiner, Role.CONTROL_PLANE)
        return cluster

    def mint_token(self, uid: str, token: str, *, seconds: float | None, description: str) -> None:
        """Let whoever shows `token` join, for so long. `new_token` makes one up."""
        cluster = self._clusters[uid]
        identity, _, secret = token.partition(".")
        expires = None if seconds is None else self._clock.now() + seconds
        cluster.tokens[identity] = Token(secret=secret, description=description, expires=expires)
        self._keep(cluster)

    def renew_admin(self, uid: str) -> None:
        """Sign a new client certificate for the cluster's administrator."""
        cluster = self._clusters[uid]
        cluster.admin = authority.client(cluster.authority, ADMIN, ADMINS)
        self._keep(cluster)

    def upload_certs(self, uid: str, certificate_key: str, *, seconds: float = 7200) -> None:
        """Put the shared certificates where a joining control-plane host finds them."""
        cluster = self._clusters[uid]
        expires = self._clock.now() + seconds
        cluster.certs = UploadedCerts(key_digest=digest(certificate_key), expires=expires)
        self._keep(cluster)

    def certs_open_with(self, uid: str, certificate_key: str) -> bool | None:
        """Whether the key fits. None: nothing is uploaded, or it has expired."""
        certs = self._clusters[uid].certs
        if certs is None or self._clock.now() >= certs.expires:
            return None
        if self._faults.meet(f"certificates {self._clusters[uid].called}") is not None:
            return None
        return certs.key_digest == digest(certificate_key)

    async def join_worker(self, uid: str, joiner: Joiner) -> None:
        self._add_node(self._clusters[uid], joiner, Role.WORKER)
        await self.host_started(joiner.address, uid, joiner.name)

    async def join_control_plane(
        self, uid: str, joiner: Joiner, alternatives: tuple[str, ...] = ()
    ) -> None:
        """Add a learner, a node and a server. `promote` gives the member its vote."""
        cluster = self._clusters[uid]
        for name, member in list(cluster.members.items()):
            if member.learner and member.address == joiner.address and name != joiner.name:
                del cluster.members[name]  # left by whoever had that address, and taken over
        if joiner.name not in cluster.members:
            self._add_member(cluster, joiner, learner=True, alternatives=alternatives)
        self._add_node(cluster, joiner, Role.CONTROL_PLANE)
        await self.host_started(joiner.address, uid, joiner.name)

    def promote(self, uid: str, name: str) -> None:
        cluster = self._clusters[uid]
        cluster.members[name].learner = False
        self._keep(cluster)

    def remove_member(self, uid: str, name: str) -> None:
        """Take a member out of etcd. Its host goes on without noticing."""
        cluster = self._clusters[uid]
        if cluster.members.pop(name, None) is not None:
            self._keep(cluster)

    def set_member_health(self, uid: str, name: str, *, healthy: bool) -> None:
        """For tests: an etcd member that runs and does not answer, or does again."""
        cluster = self._clusters[uid]
        cluster.members[name].healthy = healthy
        self._keep(cluster)

    def configure(self, uid: str, version: str) -> None:
        """Let the cluster's configuration name another version: whoever joins or is upgraded from
        here on takes it from there."""
        cluster = self._clusters[uid]
        cluster.version = version
        self._keep(cluster)

    async def replace_control_plane(self, uid: str, address: str, version: str) -> None:
        """Stop the control plane on a host and start another version of it. Who was connected to
        its API server is cut off."""
        cluster = self._clusters[uid]
        if self._servers is not None:
            await self._servers.stop(address)
        cluster.apis[address] = version
        self._keep(cluster)
        if self._servers is not None and address in self._running:
            await self._servers.serve(uid, address)

    def kubelet_started(self, uid: str, name: str, version: str) -> None:
        """A node's kubelet is up, perhaps as another version, and has said so. Where the Node is
        gone it does not register again."""
        node = self.node(uid, name)
        if node is not None and node.version != version:
            node.version = version
            self.keep_node(node)

    async def wipe_host(self, address: str) -> None:
        """Nothing of a cluster is left on the host: reset or released. Its member and its node
        stay in the books until somebody takes them out; the last server's end is the cluster's."""
        await self.host_stopped(address)
        for cluster in list(self._clusters.values()):
            if cluster.servers.pop(address, None) is None:
                continue
            cluster.apis.pop(address, None)
            if cluster.servers:
                self._keep(cluster)
            else:
                self._forget(cluster)

    async def host_started(self, address: str, uid: str, name: str) -> None:
        """A host that was made a node of a cluster is up."""
        cluster = self._clusters.get(uid)
        if cluster is None:
            return
        if self._running.get(address) != (uid, name):
            self._running[address] = (uid, name)
            self._turned(uid, name)
        if self._servers is not None and address in cluster.servers:
            await self._servers.serve(uid, address)

    async def host_stopped(self, address: str) -> None:
        stopped = self._running.pop(address, None)
        if stopped is None:
            return
        self._turned(*stopped)
        if self._servers is not None:
            await self._servers.stop(address)

    def _turned(self, uid: str, name: str) -> None:
        node = self.node(uid, name)
        if node is not None:
            node.turned = self._clock.now()
            self.keep_node(node)

    def network_applied(self, uid: str) -> None:
        """The pod network is there. Saying it again changes nothing."""
        cluster = self._clusters[uid]
        if cluster.network_since is None:
            cluster.network_since = self._clock.now()
            self._keep(cluster)

    def keep_node(self, node: Node) -> None:
        """Remember a node that was changed in place."""
        node.revision += 1
        self._nodes[node.cluster][node.name] = node
        self._ledger.keep("cluster-node", f"{node.cluster}/{node.name}", node)

    def delete_node(self, uid: str, name: str) -> None:
        """Take a Node object away. Its kubelet goes on, and does not register again."""
        if self._nodes.get(uid, {}).pop(name, None) is not None:
            self._ledger.drop("cluster-node", f"{uid}/{name}")

    def put_object(self, uid: str, key: str, body: dict[str, Any]) -> None:
        self._things[uid][key] = body
        self._ledger.keep("cluster-thing", f"{uid}/{key}", Thing(cluster=uid, key=key, body=body))

    def drop_object(self, uid: str, key: str) -> None:
        if self._things.get(uid, {}).pop(key, None) is not None:
            self._ledger.drop("cluster-thing", f"{uid}/{key}")

    def _add_member(
        self, cluster: Cluster, joiner: Joiner, *, learner: bool, alternatives: tuple[str, ...]
    ) -> None:
        self.sign_server(cluster.uid, joiner, alternatives)
        cluster.members[joiner.name] = Member(
            id=secrets.randbits(63), name=joiner.name, address=joiner.address, learner=learner
        )
        self._keep(cluster)

    def sign_server(self, uid: str, joiner: Joiner, alternatives: tuple[str, ...] = ()) -> None:
        """The serving certificate of a host that is to be a control plane."""
        cluster = self._clusters[uid]
        names = dict.fromkeys(
            (
                cluster.endpoint,
                joiner.name,
                joiner.address,
                "127.0.0.1",
                "localhost",
                "kubernetes",
                "kubernetes.default",
                "kubernetes.default.svc",
                "kubernetes.default.svc.cluster.local",
                *alternatives,
            )
        )
        if joiner.address not in cluster.servers:
            pair = authority.server(cluster.authority, "kube-apiserver", names)
            cluster.servers[joiner.address] = pair
            cluster.apis[joiner.address] = cluster.version
        self._keep(cluster)

    def _add_node(self, cluster: Cluster, joiner: Joiner, role: Role) -> None:
        known = self.node(cluster.uid, joiner.name)
        now = self._clock.now()
        labels = {
            "kubernetes.io/hostname": joiner.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
        }
        taints = list(joiner.taints)
        if role is Role.CONTROL_PLANE:
            labels[CONTROL_PLANE_LABEL] = ""
            taints.append(Taint(key=CONTROL_PLANE_LABEL, effect="NoSchedule"))
        self.keep_node(
            Node(
                cluster=cluster.uid,
                name=joiner.name,
                uid=known.uid if known else str(uuid4()),
                role=role,
                address=joiner.address,
                version=joiner.version,
                series=joiner.series,
                created=known.created if known else now,
                joined=now,
                labels=labels,
                taints=taints,
                revision=known.revision if known else 0,
            )
        )

    def _keep(self, cluster: Cluster) -> None:
        self._ledger.keep("cluster", cluster.uid, cluster)

    def _forget(self, cluster: Cluster) -> None:
        for name in list(self._nodes[cluster.uid]):
            self.delete_node(cluster.uid, name)
        for key in list(self._things[cluster.uid]):
            self.drop_object(cluster.uid, key)
        del self._clusters[cluster.uid], self._nodes[cluster.uid], self._things[cluster.uid]
        self._ledger.drop("cluster", cluster.uid)
