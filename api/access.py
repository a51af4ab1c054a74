"""What every method asks of whoever calls it: a row for each, by its full name.

A method that is served without a row keeps the server from starting. To add one, say which of the
permissions below it is; one that changes anything is in the audit trail from then on."""

from collections.abc import Mapping

from domain.access import BY_HANDLER, Permission, Role

READERS = frozenset({Role.VIEWER, Role.OPERATOR, Role.ADMIN})
WRITERS = frozenset({Role.OPERATOR, Role.ADMIN})
EVERY_ROLE = frozenset(Role)

OPEN = Permission(None)
"""Nobody has to sign in for it."""
SIGNED_IN = Permission(EVERY_ROLE)
OWN = Permission(EVERY_ROLE, changes=True, own=True)
"""Everybody's for what is their own; the handler knows whose it is."""
READ = Permission(READERS)
CHANGE = Permission(WRITERS, changes=True)
DISCLOSE = Permission(WRITERS, discloses=True)
"""Reads what is secret."""
FORESEE = Permission(WRITERS)
"""Does all that a change does, and takes it back."""
GOVERN = Permission(frozenset({Role.ADMIN}), changes=True)
INSPECT = Permission(frozenset({Role.ADMIN}))
REPORT = Permission(WRITERS | {Role.AGENT})
"""For programs at the edge and on nodes. What they say all day is not in the audit trail."""
JOIN = REPORT._replace(changes=True)
"""For the same, to come and go."""
SHARED = Permission(READERS | {Role.DEVELOPER})
"""What every developer may see, since their objects are made of it."""


def mine(*owners: str) -> Permission:
    """A change of what belongs to a developer, whom the request names there."""
    return Permission(WRITERS | {Role.DEVELOPER}, changes=True, owners=owners, subject="key")


def shown(*owners: str) -> Permission:
    """A show, of which developers get what is theirs."""
    return Permission(READERS | {Role.DEVELOPER}, owners=owners, narrows=True)


DEVELOPER = "key.name"
APP = "key.developer_key.name"
CLUSTER_INST = "key.developer"
APP_INST = ("key.app_key.developer_key.name", "key.cluster_inst_key.developer")
EXEC = ("app_inst_key.app_key.developer_key.name", "app_inst_key.cluster_inst_key.developer")

KAAS = {
    "cnct.kaas.api.Cluster/CreateCluster": CHANGE.about("name"),
    "cnct.kaas.api.Cluster/GetCluster": DISCLOSE.about("name"),  # it has the kubeconfig
    "cnct.kaas.api.Cluster/DeleteCluster": CHANGE.about("name"),
    "cnct.kaas.api.Cluster/GetClusterList": READ,
    "cnct.kaas.api.Cluster/GetClusterNodesStatus": READ,
    "cnct.kaas.api.Cluster/GetVersionInformation": SIGNED_IN,
    "cnct.kaas.api.Cluster/AddNodePool": CHANGE.about("clusterName"),
    "cnct.kaas.api.Cluster/DeleteNodePool": CHANGE.about("clusterName"),
    "cnct.kaas.api.Cluster/ScaleNodePool": CHANGE.about("clusterName"),
    "cnct.kaas.api.Cluster/GetUpgradeClusterInformation": READ,
    "cnct.kaas.api.Cluster/UpgradeCluster": CHANGE.about("name"),
}

OPS = {
    "windlass.v1.Clusters/Watch": READ,
    "windlass.v1.Clusters/ListOwners": READ,
    "windlass.v1.Clusters/Claim": CHANGE.about("name"),
    "windlass.v1.Operations/List": READ,
    "windlass.v1.Operations/Get": READ,
    "windlass.v1.Operations/Watch": READ,
    "windlass.v1.Operations/Cancel": CHANGE.about("name"),
    "windlass.v1.Operations/Pause": CHANGE.about("name"),
    "windlass.v1.Operations/Resume": CHANGE.about("name"),
    "windlass.v1.Operations/Approve": CHANGE.about("name"),
    "windlass.v1.Operations/Plan": FORESEE,
    "google.longrunning.Operations/ListOperations": READ,
    "google.longrunning.Operations/GetOperation": READ,
    "google.longrunning.Operations/DeleteOperation": CHANGE.about("name"),
    "google.longrunning.Operations/CancelOperation": CHANGE.about("name"),
    "google.longrunning.Operations/WaitOperation": READ,
    "windlass.v1.Health/GetPolicy": READ,
    "windlass.v1.Health/SetPolicy": CHANGE.about("cluster"),
    "windlass.v1.Health/Repair": CHANGE.about("cluster"),
    "windlass.v1.Health/Why": READ,
    "windlass.v1.Health/Quarantined": READ,
    "windlass.v1.Health/Lift": CHANGE.about("system_id"),
    "windlass.v1.Nodes/List": READ,
    "windlass.v1.Nodes/Watch": READ,
    "windlass.v1.Nodes/Cordon": CHANGE.about("id"),
    "windlass.v1.Nodes/Uncordon": CHANGE.about("id"),
    "windlass.v1.Nodes/Drain": CHANGE.about("id"),
    "windlass.v1.Nodes/Free": CHANGE.about("id"),
    "windlass.v1.Instances/Create": CHANGE.about("name"),
    "windlass.v1.Instances/Plan": FORESEE,
    "windlass.v1.Instances/List": READ,
    "windlass.v1.Instances/Get": READ,
    "windlass.v1.Instances/Watch": READ,
    "windlass.v1.Instances/Why": READ,
    "windlass.v1.Instances/Exec": CHANGE.about("id", "command"),
    "windlass.v1.Instances/Claim": CHANGE.about("id"),
    "windlass.v1.Storage/ListOsds": READ,
    "windlass.v1.Storage/TakeOsdsOut": CHANGE.about("osds"),
    "windlass.v1.Storage/TakeOsdsIn": CHANGE.about("osds"),
    "windlass.v1.Storage/ListPools": READ,
    "windlass.v1.Storage/CreatePool": CHANGE.about("name"),
    "windlass.v1.Storage/DeletePool": CHANGE.about("name"),
    "windlass.v1.Storage/Upgrade": CHANGE.about("version"),
    "windlass.v1.Users/WhoAmI": SIGNED_IN,
    "windlass.v1.Users/Add": GOVERN.about("name"),
    "windlass.v1.Users/List": INSPECT,
    "windlass.v1.Users/SetPassword": OWN.about("name"),
    "windlass.v1.Users/SetDisabled": GOVERN.about("name"),
    "windlass.v1.Tokens/Create": OWN.about("user"),
    "windlass.v1.Tokens/List": SIGNED_IN,
    "windlass.v1.Tokens/Revoke": OWN.about("id"),
    "windlass.v1.Audit/List": INSPECT,
    "windlass.v1.Audit/Verify": INSPECT,
    "windlass.v1.Secrets/ListKeys": INSPECT,
    "windlass.v1.Secrets/RotateKey": GOVERN.about("name"),
    "windlass.v1.Codec/Decode": READ._replace(discloses=True, subject=BY_HANDLER),
}

EDGE = {
    "edgeproto.DeveloperApi/CreateDeveloper": CHANGE.about("key"),
    "edgeproto.DeveloperApi/DeleteDeveloper": CHANGE.about("key"),
    "edgeproto.DeveloperApi/UpdateDeveloper": mine(DEVELOPER),
    "edgeproto.DeveloperApi/ShowDeveloper": shown(DEVELOPER),
    "edgeproto.OperatorApi/CreateOperator": CHANGE.about("key"),
    "edgeproto.OperatorApi/DeleteOperator": CHANGE.about("key"),
    "edgeproto.OperatorApi/UpdateOperator": CHANGE.about("key"),
    "edgeproto.OperatorApi/ShowOperator": SHARED,
    "edgeproto.FlavorApi/CreateFlavor": CHANGE.about("key"),
    "edgeproto.FlavorApi/DeleteFlavor": CHANGE.about("key"),
    "edgeproto.FlavorApi/UpdateFlavor": CHANGE.about("key"),
    "edgeproto.FlavorApi/ShowFlavor": SHARED,
    "edgeproto.ClusterApi/CreateCluster": CHANGE.about("key"),
    "edgeproto.ClusterApi/DeleteCluster": CHANGE.about("key"),
    "edgeproto.ClusterApi/UpdateCluster": CHANGE.about("key"),
    "edgeproto.ClusterApi/ShowCluster": SHARED,
    "edgeproto.AppApi/CreateApp": mine(APP),
    "edgeproto.AppApi/DeleteApp": mine(APP),
    "edgeproto.AppApi/UpdateApp": mine(APP),
    "edgeproto.AppApi/ShowApp": shown(APP),
    "edgeproto.CloudletApi/CreateCloudlet": CHANGE.about("key"),
    "edgeproto.CloudletApi/DeleteCloudlet": CHANGE.about("key"),
    "edgeproto.CloudletApi/UpdateCloudlet": CHANGE.about("key"),
    "edgeproto.CloudletApi/ShowCloudlet": SHARED,
    "edgeproto.CloudletInfoApi/ShowCloudletInfo": READ,
    "edgeproto.CloudletInfoApi/InjectCloudletInfo": CHANGE.about("key"),
    "edgeproto.CloudletInfoApi/EvictCloudletInfo": CHANGE.about("key"),
    "edgeproto.CloudletMetricsApi/ShowCloudletMetrics": READ,
    "edgeproto.CloudletRefsApi/ShowCloudletRefs": READ,
    "edgeproto.ClusterRefsApi/ShowClusterRefs": shown(CLUSTER_INST),
    "edgeproto.ClusterInstApi/CreateClusterInst": mine(CLUSTER_INST),
    "edgeproto.ClusterInstApi/DeleteClusterInst": mine(CLUSTER_INST),
    "edgeproto.ClusterInstApi/UpdateClusterInst": mine(CLUSTER_INST),
    "edgeproto.ClusterInstApi/ShowClusterInst": shown(CLUSTER_INST),
    "edgeproto.ClusterInstInfoApi/ShowClusterInstInfo": shown(CLUSTER_INST),
    "edgeproto.AppInstApi/CreateAppInst": mine(*APP_INST),
    "edgeproto.AppInstApi/DeleteAppInst": mine(*APP_INST),
    "edgeproto.AppInstApi/UpdateAppInst": mine(*APP_INST),
    "edgeproto.AppInstApi/ShowAppInst": shown(APP_INST[0]),
    "edgeproto.AppInstInfoApi/ShowAppInstInfo": shown(APP_INST[0]),
    "edgeproto.AppInstMetricsApi/ShowAppInstMetrics": READ,
    "edgeproto.ExecApi/RunCommand": mine(*EXEC).about("app_inst_key", "command"),
    # Made for who asked another process.
    "edgeproto.ExecApi/SendLocalRequest": mine(*EXEC).about("app_inst_key", "command"),
    "edgeproto.ControllerApi/ShowController": READ,
    "edgeproto.NodeApi/ShowNodeLocal": READ,
    "edgeproto.NodeApi/ShowNode": READ,
    "edgeproto.NotifyApi/StreamNotice": REPORT,
}

NODES = {
    "scheduler.NodeService/Status": REPORT,
    "scheduler.NodeService/Register": JOIN.about(BY_HANDLER),
    "scheduler.NodeService/Unregister": JOIN.about("id"),
    "scheduler.InstanceService/Create": CHANGE.about("name"),
    "scheduler.InstanceService/Start": CHANGE.about("id"),
    "scheduler.InstanceService/Stop": CHANGE.about("id"),
    "scheduler.InstanceService/Destroy": CHANGE.about("id"),
    "windlass.node.v1.Window/Report": REPORT,
    "v1alpha.PublicAPI/GetInfo": READ,
    "v1alpha.PublicAPI/ListPods": READ,
    "v1alpha.PublicAPI/InspectPod": READ,
    "v1alpha.PublicAPI/ListImages": READ,
    "v1alpha.PublicAPI/InspectImage": READ,
    "v1alpha.PublicAPI/ListenEvents": READ,
    "v1alpha.PublicAPI/GetLogs": READ,
}

KOOR = {
    "services.auth.AuthService/Login": OPEN._replace(changes=True).about("username"),
    # A token that was ended before is good for it, too.
    "services.auth.AuthService/Logout": OPEN._replace(changes=True).about(BY_HANDLER),
    "services.auth.AuthService/CheckToken": OPEN,
    "stats.StatsService/GetClusterStats": READ,
    "stats.StatsService/GetClusterResources": READ,
    "stats.StatsService/GetClusterNodes": READ,
    "stats.StatsService/GetClusterRadar": READ,
    "stats.StatsService/GetKoorCluster": READ,
}

ABOUT_US = {
    "grpc.health.v1.Health/Check": OPEN,
    "grpc.health.v1.Health/Watch": OPEN,
    "grpc.health.v1.Health/List": OPEN,
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": OPEN,
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo": OPEN,
}

PERMISSIONS: Mapping[str, Permission] = {**KAAS, **OPS, **EDGE, **NODES, **KOOR, **ABOUT_US}


def permission(method: str) -> Permission:
    """What a method asks of its callers."""
    try:
        return PERMISSIONS[method]
    except KeyError:
        raise LookupError(
            f"{method} is served and says not who may call it: add a row to api/access.py, "
            f'such as "{method}": READ, or CHANGE if it changes anything'
        ) from None
