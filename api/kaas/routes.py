"""Where the methods of the kaas contract are found over HTTP: the routes of its first gateway.

The contract's text says nothing of them, since historic contracts stay without options of ours."""

from api.rest import Route

ROUTES = {
    "CreateCluster": Route("POST", "/api/v1/cluster"),
    "GetCluster": Route("GET", "/api/v1/cluster"),
    "DeleteCluster": Route("DELETE", "/api/v1/cluster"),
    "GetClusterList": Route("GET", "/api/v1/cluster/list"),
    "GetClusterNodesStatus": Route("GET", "/api/v1/cluster/nodesstatus"),
    "GetVersionInformation": Route("GET", "/api/v1/version"),
    "AddNodePool": Route("POST", "/api/v1/cluster/pool"),
    "ScaleNodePool": Route("PUT", "/api/v1/cluster/pool"),
    "DeleteNodePool": Route("DELETE", "/api/v1/cluster/pool"),
    "GetUpgradeClusterInformation": Route("GET", "/api/v1/cluster/upgrade"),
    "UpgradeCluster": Route("PUT", "/api/v1/cluster/upgrade"),
}
"""Every method has one."""
