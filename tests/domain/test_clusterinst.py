"""Which clusters may be asked for, in which order one is told why not, and what one takes."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest

from domain import clusterinst as clusters
from domain.cloudlet import Cloudlet, CloudletKey, IpSupport, check_addresses
from domain.cloudlet_info import CloudletInfo, CloudletState, check_ready, fitting
from domain.clusterinst import ClusterInst, ClusterInstKey, Ground, IpAccess
from domain.errors import Conflict, DomainError, Exhausted, Invalid, Unavailable
from domain.flavor import Flavor
from domain.override import Override
from domain.refusal import Refusal
from domain.tracking import Phase
from domain.usage import Usage

PLACE = CloudletKey(operator="tele", name="west")
KEY = ClusterInstKey(cluster="blue", cloudlet=PLACE, developer="acme")
SMALL = Flavor(name="small", ram=2048, vcpus=2, disk=2)
WANTED = ClusterInst(key=KEY, flavor="small", nodes=2)
INFO = CloudletInfo(
    key=PLACE,
    state=CloudletState.READY,
    flavors=(
        Flavor(name="huge", ram=16384, vcpus=8, disk=100),
        Flavor(name="wide", ram=4096, vcpus=2, disk=10),
        Flavor(name="tight", ram=2048, vcpus=2, disk=10),
        Flavor(name="little", ram=512, vcpus=1, disk=10),
    ),
)
WEST = Cloudlet(
    operator="tele",
    name="west",
    ip_support=IpSupport.DYNAMIC,
    dynamic_ips=5,
    latitude=1,
    longitude=2,
)
GROUND = Ground(cloudlet=WEST, info=INFO, flavors=(SMALL,))


def at(**more: Any) -> ClusterInst:
    """A cluster whose key differs from the usual one."""
    return WANTED.model_copy(update={"key": KEY.model_copy(update=more)})


def cluster(**more: Any) -> ClusterInst:
    return WANTED.model_copy(update=more)


def on(**more: Any) -> Ground:
    return GROUND.model_copy(update=more)


def place(
    wanted: ClusterInst = WANTED, ground: Ground = GROUND, override: Override = Override.NONE
) -> clusters.Placed:
    return clusters.placed(clusters.drafted(wanted), ground, override)


def dedicated(used: int) -> clusters.Placed:
    wanted = cluster(ip_access=IpAccess.DEDICATED)
    return place(wanted, on(usage=Usage(addresses=used)))


class Case(NamedTuple):
    """How a refusal is come by, of what kind it is, and what it says."""

    work: Callable[[], object]
    kind: type[DomainError]
    text: str


def ready(key: CloudletKey, info: CloudletInfo | None = None) -> Callable[[], None]:
    return lambda: check_ready(key, info, Override.NONE)


CASES: dict[Refusal, Case] = {
    Refusal.CLOUDLET_NOT_READY: Case(
        ready(CloudletKey(operator="dmuus", name="x")),
        Unavailable,
        'Cloudlet operator_key:<name:"dmuus" > name:"x"  not ready, '
        "state is CLOUDLET_STATE_NOT_PRESENT",
    ),
    Refusal.CLUSTERINST_NO_DEVELOPER: Case(
        lambda: place(at(developer="", cluster="")), Invalid, "Developer cannot be empty"
    ),
    Refusal.CLUSTERINST_NO_CLOUDLET: Case(
        lambda: place(at(cloudlet=CloudletKey(operator="", name=""))),
        *(Invalid, "Cloudlet name cannot be empty"),
    ),
    Refusal.CLUSTERINST_NO_OPERATOR: Case(
        lambda: place(at(cloudlet=CloudletKey(operator="", name="west"), cluster="")),
        *(Invalid, "Operator name cannot be empty"),
    ),
    Refusal.CLUSTERINST_NO_NAME: Case(
        lambda: place(at(cluster="")), Invalid, "Cluster name cannot be empty"
    ),
    Refusal.CLUSTERINST_VM: Case(
        lambda: place(cluster(deployment="vm", nodes=0)),
        Invalid,
        "ClusterInst is not needed for deployment type vm, just create an AppInst directly",
    ),
    Refusal.CLUSTERINST_DEPLOYMENT: Case(
        lambda: place(cluster(deployment="swarm", nodes=0)),
        *(Invalid, "Invalid deployment type swarm for ClusterInst"),
    ),
    Refusal.CLUSTERINST_MASTERS: Case(
        lambda: place(cluster(masters=2, nodes=0)), Invalid, "NumMasters cannot be greater than 1"
    ),
    Refusal.CLUSTERINST_NO_NODES: Case(
        lambda: place(cluster(nodes=0)), Invalid, "Zero NumNodes not supported yet"
    ),
    Refusal.CLUSTERINST_DOCKER_COUNTS: Case(
        lambda: place(cluster(deployment="docker", ip_access=IpAccess.SHARED)),
        Invalid,
        "NumMasters and NumNodes not applicable for deployment type docker",
    ),
    Refusal.CLUSTERINST_DOCKER_SHARED: Case(
        lambda: place(cluster(deployment="docker", nodes=0, ip_access=IpAccess.SHARED)),
        *(Invalid, "IpAccess must be dedicated for deployment type docker"),
    ),
    Refusal.CLOUDLET_UNKNOWN: Case(
        lambda: place(ground=on(cloudlet=None, info=None)),
        *(Conflict, "Specified cloudlet not found"),
    ),
    Refusal.CLUSTERINST_NO_INFO: Case(
        lambda: place(cluster(flavor=""), on(info=None)),
        *(Conflict, "no resource information for the cloudlet"),
    ),
    Refusal.CLUSTERINST_NO_FLAVOR: Case(
        lambda: place(cluster(flavor="")),
        *(Invalid, "No Flavor specified and no default Flavor for Cluster"),
    ),
    Refusal.CLUSTERINST_FLAVOR: Case(
        lambda: place(cluster(flavor="vast")), Conflict, "flavor vast not found"
    ),
    Refusal.CLUSTERINST_NO_FIT: Case(
        lambda: fitting(INFO, SMALL.model_copy(update={"disk": 101})),
        *(Conflict, "no suitable platform flavor for small"),
    ),
    Refusal.CLUSTERINST_NO_IP: Case(lambda: dedicated(4), Exhausted, "No more dynamic IPs left"),
    Refusal.CLUSTERINST_BUSY: Case(
        lambda: clusters.check_delete(Phase.DELETE_ERROR, Override.TRANSIENT_STATE),
        *(Conflict, "ClusterInst busy, cannot delete"),
    ),
    Refusal.CLUSTERINST_NOTHING: Case(
        lambda: clusters.check_fields(frozenset({"6"})),
        *(Invalid, "nothing specified to update"),
    ),
    Refusal.CLUSTERINST_FIXED: Case(
        lambda: clusters.check_fields(frozenset({"14", "13"})),
        *(Invalid, "some specified fields cannot be modified"),
    ),
    Refusal.CLUSTERINST_SINGLE: Case(
        lambda: clusters.resized(WANTED, Phase.CREATING, 3),
        *(Invalid, "cannot modify single node clusters"),
    ),
    Refusal.CLUSTERINST_NOT_READY: Case(
        lambda: clusters.resized(cluster(masters=1), Phase.CREATING, 0),
        *(Conflict, "cluster is not ready"),
    ),
    Refusal.CLOUDLET_IPS_IN_USE: Case(
        lambda: check_addresses(WEST, 6),
        *(Conflict, "Cannot specify fewer dynamic IPs than are in use"),
    ),
}


@pytest.mark.parametrize("refusal", CASES, ids=lambda refusal: refusal.name)
def test_says_no_to_the_byte(refusal: Refusal) -> None:
    case = CASES[refusal]
    with pytest.raises(DomainError) as told:
        case.work()
    assert told.value.message == case.text
    assert (type(told.value), told.value.reason) == (case.kind, refusal.name)


def told(work: Callable[[], object]) -> str:
    """The reason for a refusal."""
    with pytest.raises(DomainError) as error:
        work()
    return error.value.reason


def test_checks_come_in_their_order() -> None:
    """All is wrong at first, and then one thing less each time."""
    wanted = at(cluster="_", cloudlet=CloudletKey(operator="tele", name="west"))
    wanted = wanted.model_copy(update={"flavor": "", "ip_access": IpAccess.DEDICATED})
    ground = Ground(phase=Phase.READY, cloudlet=None, info=None, usage=Usage(addresses=9))
    seen = []
    for change, found in (
        ({}, {}),
        ({}, {"phase": Phase.NOT_PRESENT}),
        ({"key": at(cluster="autocluster1").key}, {}),
        ({"key": KEY}, {}),
        ({}, {"cloudlet": WEST}),
        ({}, {"info": INFO.model_copy(update={"flavors": ()})}),
        ({"flavor": "small"}, {}),
        ({}, {"flavors": (SMALL,)}),
        ({}, {"info": INFO}),
    ):
        wanted = wanted.model_copy(update=change)
        ground = ground.model_copy(update=found)
        seen.append(told(partial(place, wanted, ground)))
    assert seen == [
        *("KEY_TAKEN", "CLUSTER_NAME", "CLUSTER_RESERVED", "CLOUDLET_UNKNOWN"),
        *("CLUSTERINST_NO_INFO", "CLUSTERINST_NO_FLAVOR", "CLUSTERINST_FLAVOR"),
        *("CLUSTERINST_NO_FIT", "CLUSTERINST_NO_IP"),
    ]


def test_what_is_left_out_is_filled_in() -> None:
    found = place(cluster(flavor=""), on(default_flavor="small"))
    assert found.cluster == cluster(
        masters=1, deployment="kubernetes", ip_access=IpAccess.SHARED, node_flavor="tight"
    )
    assert found.taken.model_dump() == {
        **{"ram": 3 * 2048, "vcores": 6, "disk": 6},
        **{"addresses": 0, "ports": ()},
    }


def test_helm_runs_on_kubernetes_and_docker_is_dedicated_and_weighs_nothing() -> None:
    assert place(cluster(deployment="helm")).cluster.deployment == "kubernetes"
    found = place(cluster(deployment="docker", nodes=0))
    assert found.cluster.ip_access is IpAccess.DEDICATED
    assert (found.taken.ram, found.taken.addresses, found.cluster.allocated_ip) == (0, 1, "dynamic")


def test_one_address_of_a_cloudlet_is_kept() -> None:
    assert [dedicated(used).taken.addresses for used in range(4)] == [1, 1, 1, 1]
    assert told(lambda: dedicated(4)) == "CLUSTERINST_NO_IP"


@pytest.mark.parametrize("operator", ["gcp", "azure"])
def test_a_public_cloud_has_addresses_of_its_own(operator: str) -> None:
    wanted = at(cloudlet=CloudletKey(operator=operator, name="west"))
    found = place(wanted, on(usage=Usage(addresses=9)))
    assert found.cluster.ip_access is IpAccess.DEDICATED
    assert (found.taken.addresses, found.cluster.allocated_ip) == (0, "")


def test_an_address_of_either_kind_is_shared() -> None:
    found = place(cluster(ip_access=IpAccess.DEDICATED_OR_SHARED))
    assert found.cluster.ip_access is IpAccess.SHARED


def test_a_cluster_for_an_app_may_be_called_so() -> None:
    assert place(at(cluster="autocluster1").model_copy(update={"auto": True}))


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("override", Override)
def test_a_key_is_free_for_what_is_not_there_or_gives_way(phase: Phase, override: Override) -> None:
    busy = {
        *(Phase.CREATE_REQUESTED, Phase.CREATING, Phase.UPDATE_REQUESTED, Phase.UPDATING),
        *(Phase.UPDATE_ERROR, Phase.DELETE_REQUESTED, Phase.DELETING, Phase.DELETE_PREPARE),
    }
    free = phase in {Phase.NOT_PRESENT, Phase.DELETE_ERROR}
    if free or (override.displaces and phase in busy):
        assert place(ground=on(phase=phase), override=override)
    else:
        assert told(lambda: place(ground=on(phase=phase), override=override)) == "KEY_TAKEN"


def test_only_the_number_of_nodes_changes() -> None:
    clusters.check_fields(frozenset({"14", "6", "2.1.1"}))
    stands = cluster(masters=1)
    assert clusters.resized(stands, Phase.READY, 5) == stands.model_copy(update={"nodes": 5})
    assert clusters.resized(stands, Phase.READY, 0).nodes == 0
    assert clusters.resized(stands, Phase.READY, None) == stands
    assert not clusters.check_fields(frozenset({"6", "2.3"}))
    assert told(lambda: clusters.check_fields(frozenset())) == "CLUSTERINST_NOTHING"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (CloudletKey(operator="", name=""), "operator_key:<> "),
        (CloudletKey(operator="o", name=""), 'operator_key:<name:"o" > '),
        (CloudletKey(operator="", name='a"\\\n'), 'operator_key:<> name:"a\\"\\\\\\n" '),
        (CloudletKey(operator="", name="ü"), 'operator_key:<> name:"\\303\\274" '),
    ],
)
def test_a_key_is_told_as_it_used_to_be(key: CloudletKey, text: str) -> None:
    assert key.text == text


@pytest.mark.parametrize("state", CloudletState)
def test_a_cloudlet_takes_work_while_it_is_well_or_complains(state: CloudletState) -> None:
    info = INFO.model_copy(update={"state": state})
    if state in {CloudletState.READY, CloudletState.ERRORS}:
        ready(PLACE, info)()
    else:
        assert told(ready(PLACE, info)) == "CLOUDLET_NOT_READY"
    check_ready(PLACE, info, Override.CRM)
    check_ready(CloudletKey(operator="developer", name="default"), None, Override.NONE)
