"""`windlass cluster`: Kubernetes clusters on bare metal."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cli import documents, planning
from cli.calling import Call, command, group
from cli.complaints import Code, Complaint
from cli.operation import changed
from cli.options import Cluster, Plan, RequestId, Sizes, Timeout, Wait, seconds
from cli.ownership import warn_of_owner
from cli.printing import Column, Document, Format
from cli.wishing import of_a_delete

if TYPE_CHECKING:
    from pathlib import Path

    from protos.gen.kaas import api_pb2, api_pb2_grpc

app = group("Kubernetes clusters on bare metal.")

CLUSTERS = (
    Column("NAME", lambda it: it["name"]),
    Column("STATUS", lambda it: it["status"]),
    Column("MESSAGE", lambda it: it["status_message"]),
)
CLUSTER = (
    *CLUSTERS[:2],
    Column("KUBECONFIG", lambda it: _kubeconfig(it)),
    CLUSTERS[2],
)
NODE_NAME = Column("NODE", lambda it: it["name"])
NODES = (
    Column("HOSTNAME", lambda it: it["hostname"]),
    Column("STATUS", lambda it: it["kubernetes_status"]),
    Column("VERSION", lambda it: it["kubernetes_version"]),
    Column("MACHINE", lambda it: it["machine_status"]),
    Column("ADDRESS", lambda it: it["address"]),
    Column("MACHINE ID", lambda it: it["machine_id"], wide=True),
)


@app.command("create")
@command
async def create(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name that is still free.")],
    version: Annotated[
        str, typer.Option("--version", metavar="V", help="Of Kubernetes; else the server's choice.")
    ] = "",
    control_planes: Annotated[
        int, typer.Option("--control-planes", metavar="N", help="1, 3 or 5.")
    ] = 1,
    pool: Annotated[
        list[str] | None,
        typer.Option(
            "--pool",
            metavar="NAME=COUNT[:TYPE]",
            help="A pool of workers, of machines of one instance type. May be repeated.",
        ),
    ] = None,
    instance_type: Annotated[
        str,
        typer.Option(
            "--instance-type",
            metavar="TYPE",
            help="Of the control plane, and of every pool that names none; else any machine.",
        ),
    ] = "",
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="K=V", help="On every node. May be repeated."),
    ] = None,
    storage: Annotated[
        bool,
        typer.Option("--storage", help="With a pool of its own in Ceph, and a class ceph-rbd."),
    ] = False,
    plan: Plan = False,
    request_id: RequestId = "",
    wait: Wait = False,
    within: Timeout = "4h",
) -> None:
    """Create a cluster.

    It is answered as soon as it is accepted; what follows is an operation. With --storage it has a
    Secret and a StorageClass for the driver ceph-csi, which is for you to install."""
    from protos.gen.kaas.api_pb2 import (
        ClusterStatus,
        ControlPlaneMachineSpec,
        CreateClusterMsg,
    )
    from protos.gen.ops.operations_pb2 import SUCCEEDED

    limit, labels = seconds(within), labelled(label or ())
    request = CreateClusterMsg(
        name=name,
        k8s_version=version,
        control_plane_nodes=ControlPlaneMachineSpec(
            labels=labels, instanceType=instance_type, count=control_planes
        ),
        worker_node_pools=[pooled(text, labels, instance_type, "--pool ") for text in pool or ()],
    )
    wishes = (("windlass-storage", "true"),) if storage else ()
    if plan:
        await planning.foreseen(call, "CreateCluster", request, wishes)
        return
    method = clusters(call).CreateCluster
    reply, operation = await call.change(method, request, request_id, wishes=wishes)
    status = ClusterStatus.Name(reply.cluster.status)
    call.page.say(f"cluster {name} is accepted: {status}, {reply.cluster.status_message}")
    if await changed(call, operation, SUCCEEDED, wait=wait, limit=limit):
        call.page.say(f"  use it after windlass cluster kubeconfig {name} --merge")


@app.command("get")
@command
async def get(call: Call, name: Cluster) -> None:
    """Show one cluster."""
    found = documents.cluster_detail(await fetched(call, name))
    if call.page.for_programs:
        call.page.one(found, f"cluster/{name}", lambda: "")
    else:
        call.page.many([found], CLUSTER, lambda it: f"cluster/{it['name']}", none="")


@app.command("list")
@command
async def listing(call: Call) -> None:
    """List the clusters."""
    from protos.gen.kaas.api_pb2 import GetClusterListMsg

    reply = await call.ask(clusters(call).GetClusterList, GetClusterListMsg())
    call.page.many(
        [documents.cluster(each) for each in reply.clusters],
        CLUSTERS,
        lambda it: f"cluster/{it['name']}",
        none="there are no clusters; windlass cluster create makes one",
    )


@app.command("delete")
@command
async def delete(
    call: Call,
    name: Cluster,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask to type the name.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Let go of machines that MAAS does not take back; the operation lists them.",
        ),
    ] = False,
    keep_data: Annotated[
        bool, typer.Option("--keep-data", help="Of one with storage: its pool in Ceph stays.")
    ] = False,
    delete_data: Annotated[
        str,
        typer.Option(
            "--delete-data",
            metavar="NAME",
            help="Or its pool goes, with all that is in it: the cluster's name, typed once more.",
        ),
    ] = "",
    plan: Plan = False,
    request_id: RequestId = "",
    wait: Wait = False,
    within: Timeout = "4h",
) -> None:
    """Delete a cluster and give its machines back.

    What runs on it is lost. On a terminal its name has to be typed; elsewhere --yes is needed.
    A delete that MAAS holds up can be asked for again with --force: then the cluster goes, and
    somebody has to give back by hand what windlass op get lists as left behind. That is for
    administrators."""
    from protos.gen.kaas.api_pb2 import DeleteClusterMsg
    from protos.gen.ops.operations_pb2 import SUCCEEDED

    limit, request = seconds(within), DeleteClusterMsg(name=name)
    wishes = of_a_delete(name, force=force, keep_data=keep_data, delete_data=delete_data)
    if plan:
        await planning.foreseen(call, "DeleteCluster", request, wishes)
        return
    await warn_of_owner(call, name)
    if not yes:
        await confirm(call, name, force=force)
    method = clusters(call).DeleteCluster
    reply, operation = await call.change(method, request, request_id, wishes=wishes)
    call.page.say(f"cluster {name}: {reply.status}")
    await changed(call, operation, SUCCEEDED, wait=wait, limit=limit)


@app.command("scale")
@command
async def scale(
    call: Call,
    name: Cluster,
    pools: Sizes,
    plan: Plan = False,
    request_id: RequestId = "",
    wait: Wait = False,
    within: Timeout = "4h",
) -> None:
    """Give pools of a cluster another size.

    The same as windlass pool scale."""
    from cli import pool

    limit = seconds(within)
    await pool.scaled(call, name, pools, request_id, plan=plan, wait=wait, limit=limit)


@app.command("nodes")
@command
async def nodes(call: Call, name: Cluster) -> None:
    """List a cluster's nodes and their machines.

    The control plane comes first. A node without a hostname has no machine yet. Its own name is
    what kubectl and every --node call it; a server that does not tell names shows none."""
    from cli.naming import node_names
    from protos.gen.kaas.api_pb2 import GetClusterNodesStatusMsg

    request = GetClusterNodesStatusMsg(clusterName=name)
    reply = await call.ask(clusters(call).GetClusterNodesStatus, request)
    names = await node_names(call, name, [machine.maasSystemId for machine in reply.machines])
    call.page.many(
        [documents.node(*each) for each in zip(reply.machines, names, strict=True)],
        (NODE_NAME, *NODES) if any(names) else NODES,
        lambda it: f"node/{called}" if (called := it["name"] or it["hostname"]) else "",
        beside={"cluster": reply.Name or name},
        none=f"cluster {name} has no nodes",
    )


@app.command("watch")
@command
async def watch(call: Call, name: Cluster) -> None:
    """Follow a cluster and its nodes, live, until it is gone.

    Says how it is, then a line for all that changes. With -o json every line is all of it."""
    from cli.following import follow

    await follow(call, name)


@app.command("kubeconfig")
@command
async def kubeconfig(
    call: Call,
    name: Cluster,
    merge: Annotated[
        bool, typer.Option("--merge", help="Put it into your own kubeconfig file.")
    ] = False,
    file: Annotated[
        str, typer.Option("--file", metavar="PATH", help="That file; else as kubectl finds it.")
    ] = "",
    use: Annotated[
        bool, typer.Option("--use", help="With --merge: make it the current context.")
    ] = False,
) -> None:
    """Print a cluster's kubeconfig, or merge it into yours.

    A merge replaces entries of the same names and keeps the file as it was beside it, ending in
    .windlass-backup. The current context changes with --use, or if there was none."""
    from pathlib import Path

    from protos.gen.kaas.api_pb2 import STOPPING

    if (file or use) and not merge:
        raise Complaint("--file and --use belong to --merge", Code.USAGE, do="add --merge")
    found = await fetched(call, name)
    if not found.kubeconfig and found.status == STOPPING:
        raise Complaint(
            f"the kubeconfig of cluster {name} is withdrawn: the cluster is being deleted",
            Code.REFUSED,
            do=f"windlass op list --subject cluster/{name} shows how far that is",
        )
    if not found.kubeconfig:
        raise Complaint(
            f"cluster {name} has no kubeconfig yet",
            Code.REFUSED,
            lines=[found.status_message] if found.status_message else [],
            do=f"windlass op list --subject cluster/{name} shows what it waits for",
        )
    if merge:
        await merged(call, name, found.kubeconfig, Path(file) if file else None, use)
    elif call.page.form is Format.JSON:
        import yaml

        call.page.document(yaml.safe_load(found.kubeconfig))
    else:
        sys.stdout.write(found.kubeconfig.rstrip("\n") + "\n")


async def merged(call: Call, name: str, text: str, file: "Path | None", use: bool) -> None:
    import asyncio

    from cli import kubeconfig as files

    path = file or files.default_path()
    result = await asyncio.to_thread(files.merge, path, text, switch=use)
    call.page.say(f"cluster {name} is in {path}, and the current context is {result.context}")
    if result.backup:
        call.page.say(f"  the file as it was: {result.backup}")
    if call.page.for_programs:
        document = {
            "name": name,
            "file": str(path),
            "backup": str(result.backup) if result.backup else None,
            "current_context": result.context,
        }
        call.page.one(document, f"cluster/{name}", lambda: "")


def _kubeconfig(cluster: Document) -> str:
    """Whether there is one to be had, now or later."""
    if cluster["kubeconfig_ready"]:
        return "ready"
    return "withdrawn" if cluster["status"] == "STOPPING" else "not yet"


async def fetched(call: Call, name: str) -> "api_pb2.ClusterDetailItem":
    from protos.gen.kaas.api_pb2 import GetClusterMsg

    return (await call.ask(clusters(call).GetCluster, GetClusterMsg(name=name))).cluster


def clusters(call: Call) -> "api_pb2_grpc.ClusterStub":
    from protos.gen.kaas.api_pb2_grpc import ClusterStub

    return ClusterStub(call.channel)


async def confirm(call: Call, name: str, *, force: bool) -> None:
    """Have the name typed. Where nobody can type, nobody has agreed."""
    import asyncio

    if not sys.stdin.isatty():
        raise Complaint(
            f"cluster {name} is deleted only if you say so",
            Code.USAGE,
            do=f"windlass cluster delete {name} --yes{' --force' if force else ''}",
        )
    call.page.err.print(f"This deletes cluster {name} and all that runs on it.")
    if force:
        call.page.err.print("Machines that MAAS does not take back now are left to you.")
    call.page.err.print("Type its name to go on: ", end="")
    typed = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), typed.set)
    await typed.wait()  # a blocking read would not let go on Ctrl-C
    asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
    if sys.stdin.readline().strip() != name:
        raise Complaint("nothing was deleted: that is not its name")


def pooled(
    text: str, labels: "list[api_pb2.KubernetesLabel]", instance_type: str, behind: str = ""
) -> "api_pb2.MachineSpec":
    """A pool as it is typed, behind an option perhaps: NAME=COUNT or NAME=COUNT:TYPE."""
    from protos.gen.kaas.api_pb2 import MachineSpec

    name, _, rest = text.partition("=")
    count, _, own_type = rest.partition(":")
    if not name or not count.isdecimal():
        raise Complaint(
            f"{behind}{text!r} is no pool",
            Code.USAGE,
            do="write it NAME=COUNT or NAME=COUNT:TYPE, such as worker=3 or gpu=2:large",
        )
    return MachineSpec(
        name=name, labels=labels, instanceType=own_type or instance_type, count=int(count)
    )


def labelled(texts: "list[str] | tuple[()]") -> "list[api_pb2.KubernetesLabel]":
    from protos.gen.kaas.api_pb2 import KubernetesLabel

    labels = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise Complaint(
                f"--label {text!r} is no label",
                Code.USAGE,
                do="write it KEY=VALUE; VALUE may be empty",
            )
        labels.append(KubernetesLabel(name=name, value=value))
    return labels
