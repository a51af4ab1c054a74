"""Which instances may be asked for, in which order one is told why not, and how one is reached."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain import appinst as instances
from domain.access_ports import Protocol
from domain.app import App, ImageType, Service
from domain.appinst import AppInst, AppInstKey, Ground
from domain.cloudlet import CloudletKey
from domain.clusterinst import ClusterInst, ClusterInstKey, IpAccess
from domain.errors import Conflict, DomainError, Exhausted, Invalid
from domain.exposure import MappedPort
from domain.override import Override
from domain.refusal import Refusal
from domain.tracking import Phase
from domain.usage import FIRST, LAST, Pool, Taken, Usage, summed
from tests.domain.test_clusterinst import SMALL, WEST, Case, told

PLACE = CloudletKey(operator="Tele", name="we st")
DEFAULT = CloudletKey(operator="developer", name="default")
CLUSTER_KEY = ClusterInstKey(cluster="Blue", cloudlet=PLACE, developer="acme")
KEY = AppInstKey(developer="acme", app="shop 1", version="1.0", cluster=CLUSTER_KEY)
WANTED = AppInst(key=KEY)
SERVICES = (
    Service(name="shop1-tcp", ports=(("TCP", 443), ("TCP", 10002))),
    Service(name="shop1-udp", ports=(("UDP", 10002),)),
)
APP = App(
    developer="acme",
    name="shop 1",
    version="1.0",
    image_type=ImageType.DOCKER,
    default_flavor="small",
    deployment="kubernetes",
    access_ports="http:443,tcp:10002,udp:10002",
    services=SERVICES,
)
CLUSTER = ClusterInst(key=CLUSTER_KEY, deployment="kubernetes", ip_access=IpAccess.SHARED)
GROUND = Ground(
    cloudlet=WEST,
    app=APP,
    cluster=CLUSTER,
    cluster_phase=Phase.READY,
    flavors=(SMALL,),
)
NAME = "west.tele.mobiledgex.net"
JSON = '{"cluster_key":{"name":"Blue"}}'


def into(**more: Any) -> AppInstKey:
    """A key in another cluster than the usual one."""
    return KEY.model_copy(update={"cluster": CLUSTER_KEY.model_copy(update=more)})


def on(**more: Any) -> Ground:
    return GROUND.model_copy(update=more)


def app(**more: Any) -> App:
    return APP.model_copy(update=more)


def place(wanted: AppInst = WANTED, ground: Ground = GROUND) -> instances.Placed:
    return instances.placed(wanted, ground, JSON, Override.NONE)


def find(key: AppInstKey = KEY, ground: Ground = GROUND) -> None:
    instances.check_found(key, ground, Override.NONE)


def reached(*, dedicated: bool = False, **more: Any) -> ClusterInst:
    access = IpAccess.DEDICATED if dedicated else IpAccess.SHARED
    return CLUSTER.model_copy(update={"ip_access": access, **more})


FULL = Usage(ports=dict.fromkeys((10002, *range(FIRST, LAST + 1)), 1))

CASES: dict[Refusal, Case] = {
    Refusal.APPINST_APP: Case(
        lambda: find(ground=on(app=None, cluster=None)), Conflict, "Specified app not found"
    ),
    Refusal.APPINST_CLUSTER: Case(
        lambda: find(ground=on(cluster=None)), Conflict, "Specified ClusterInst not found"
    ),
    Refusal.APPINST_DEVELOPER: Case(
        lambda: instances.check_names(into(developer="other")),
        Invalid,
        "Developer name mismatch between app: acme and cluster inst: other",
    ),
    Refusal.APPINST_URI: Case(
        lambda: instances.check_uri(WANTED.model_copy(update={"uri": "x"})),
        *(Invalid, "uri is not allowed, it is given by the controller"),
    ),
    Refusal.APPINST_NO_URI: Case(
        lambda: instances.check_uri(AppInst(key=into(cloudlet=DEFAULT))),
        *(Invalid, "uri is required on the default cloudlet"),
    ),
    Refusal.APPINST_FLAVOR: Case(
        lambda: place(WANTED.model_copy(update={"flavor": "vast"})),
        *(Conflict, "Flavor vast not found"),
    ),
    Refusal.APPINST_CLUSTER_NOT_READY: Case(
        lambda: place(ground=on(cluster_phase=Phase.CREATING)),
        *(Conflict, f"ClusterInst {JSON} not ready"),
    ),
    Refusal.APPINST_DEPLOYMENT: Case(
        lambda: place(ground=on(app=app(deployment="docker"))),
        *(Invalid, "Cannot deploy docker App into kubernetes ClusterInst"),
    ),
    Refusal.APPINST_NO_PORTS: Case(
        lambda: place(ground=on(usage=FULL)), Exhausted, "no free external ports"
    ),
    Refusal.APPINST_BUSY: Case(
        lambda: instances.check_delete(Phase.CREATING, Override.CRM_ERRORS),
        *(Conflict, "AppInst busy, cannot delete"),
    ),
    Refusal.APP_HAS_INSTANCES: Case(
        lambda: instances.check_app_change(APP, app(access_ports="tcp:1")),
        *(Conflict, "access_ports cannot be changed while the app has instances"),
    ),
}


@pytest.mark.parametrize("refusal", CASES, ids=lambda refusal: refusal.name)
def test_says_no_to_the_byte(refusal: Refusal) -> None:
    case = CASES[refusal]
    with pytest.raises(DomainError) as error:
        case.work()
    assert error.value.message == case.text
    assert (type(error.value), error.value.reason) == (case.kind, refusal.name)


def test_names_are_looked_at_before_developers() -> None:
    wrong = into(developer="other").model_copy(update={"app": "_"})
    assert told(lambda: instances.check_names(wrong)) == "APP_NAME"


def test_what_is_found_is_looked_at_in_its_order() -> None:
    """All is wrong at first, and then one thing less each time."""
    key, ground, seen = into(cluster="_"), Ground(phase=Phase.READY), []
    for wanted, found in (
        (key, {}),
        (key, {"phase": Phase.NOT_PRESENT}),
        (into(cluster=""), {}),
        (into(cluster=""), {"cloudlet": WEST}),
        (KEY, {}),
        (KEY, {"app": APP}),
    ):
        ground = ground.model_copy(update=found)
        seen.append(told(partial(find, wanted, ground)))
    assert seen == [
        *("KEY_TAKEN", "CLUSTER_NAME", "CLOUDLET_UNKNOWN"),
        *("CLUSTER_NAME", "APPINST_APP", "APPINST_CLUSTER"),
    ]
    find(KEY, GROUND)


def test_what_is_placed_is_looked_at_in_its_order() -> None:
    ground = on(
        phase=Phase.CREATE_ERROR,
        app=app(deployment="docker"),
        cluster_phase=Phase.DELETING,
        flavors=(),
        usage=FULL,
    )
    seen = []
    for found in (
        {},
        {"phase": Phase.DELETE_ERROR},
        {"flavors": (SMALL,)},
        {"cluster_phase": Phase.READY},
        {"app": APP},
    ):
        ground = ground.model_copy(update=found)
        seen.append(told(partial(place, WANTED, ground)))
    assert seen == [
        *("KEY_TAKEN", "APPINST_FLAVOR", "APPINST_CLUSTER_NOT_READY"),
        *("APPINST_DEPLOYMENT", "APPINST_NO_PORTS"),
    ]


def test_who_needs_no_cluster_names_none() -> None:
    find(into(cluster=""), on(app=app(deployment="vm"), cluster=None))
    find(into(cluster="autocluster"), on(cluster=None))
    find(into(cluster="", cloudlet=DEFAULT), Ground(app=APP))


def test_a_cluster_for_an_app_is_called_as_kubernetes_likes_it() -> None:
    key = into(cluster="autocluster_Shop 1", developer="")
    assert instances.keyed(key) == into(cluster="autocluster-shop1", developer="acme")
    assert instances.keyed(into(cluster="AutoCluster", developer="")).cluster.developer == ""


def test_the_platform_s_apps_go_into_any_cluster() -> None:
    instances.check_names(KEY.model_copy(update={"developer": "MobiledgeX"}))
    instances.check_names(into(developer=""))


def port(protocol: str, internal: int, public: int, path: str = "", fqdn: str = "") -> MappedPort:
    return MappedPort(
        **{"protocol": Protocol(protocol), "internal": internal, "public": public},
        **{"path_prefix": path, "fqdn_prefix": fqdn},
    )


PATH = "acme/shop110/p443"
TCP, UDP = ("tcp", 10002, 10002, "", "shop1-tcp."), ("udp", 10002, 10002, "", "shop1-udp.")
HTTP = ("http", 443, 443, PATH)

WAYS = [
    (on(), {}, NAME, [HTTP, TCP, UDP]),
    (on(cluster=reached(dedicated=True)), {}, f"blue.{NAME}", [HTTP, TCP, UDP]),
    (
        on(app=app(deployment="vm"), cluster=None),
        {},
        f"acmeshop110.{NAME}",
        [("http", 443, 443), ("tcp", 10002, 10002), ("udp", 10002, 10002)],
    ),
    (
        on(),
        {"key": into(cloudlet=CloudletKey(operator="gcp", name="east"))},
        "acmeshop110.blue.east.gcp.mobiledgex.net",
        [("tcp", 443, 443, "", "shop1-tcp."), TCP, UDP],
    ),
    (
        on(cluster=None, cloudlet=None),
        {"key": into(cloudlet=DEFAULT), "uri": "mine.example"},
        "mine.example",
        [("http", 443, 0), ("tcp", 10002, 0), ("udp", 10002, 0)],
    ),
]


@pytest.mark.parametrize(
    ("ground", "said", "uri", "ports"),
    WAYS,
    ids=["shared", "dedicated", "machine", "cloud", "default"],
)
def test_an_instance_is_reached_by_where_it_runs(
    ground: Ground, said: dict[str, Any], uri: str, ports: list[tuple[Any, ...]]
) -> None:
    found = place(WANTED.model_copy(update=said), ground)
    assert found.instance.uri == uri
    assert found.instance.ports == tuple(port(*each) for each in ports)
    shared = ground is WAYS[0][0]
    assert found.taken.ports == (((10002, 1), (10002, 2)) if shared else ())
    assert found.instance.flavor == "small"
    somewhere = ground.cloudlet is not None
    assert (found.instance.latitude, found.instance.longitude) == ((1, 2) if somewhere else (0, 0))


def test_helm_has_no_names_for_ports_and_runs_on_kubernetes() -> None:
    found = place(ground=on(app=app(deployment="helm", access_ports="tcp:80")))
    assert found.instance.ports == (port("tcp", 80, 80),)


@pytest.mark.parametrize(
    ("ports", "usage", "public"),
    [
        ("tcp:8,tcp:8", {}, [8, FIRST]),
        ("tcp:8,udp:8", {}, [8, 8]),
        ("tcp:22,udp:443", {}, [FIRST, FIRST]),
        ("tcp:80", {80: 2}, [80]),
        ("tcp:80", {80: 1, FIRST: 3}, [FIRST + 1]),
        (f"tcp:{LAST + 1}", {}, [LAST + 1]),
    ],
)
def test_a_port_is_one_s_own_if_it_can_be(
    ports: str, usage: dict[int, int], public: list[int]
) -> None:
    found = place(ground=on(app=app(access_ports=ports), usage=Usage(ports=usage)))
    assert [each.public for each in found.instance.ports] == public


def test_what_is_taken_adds_up_as_it_always_did() -> None:
    one = place(ground=on(app=app(access_ports="http:443,tcp:10002,udp:10002")))
    two = place(ground=on(app=app(access_ports="tcp:80,http:443")))
    assert summed([one.taken, two.taken]).ports == {80: 1, 10002: 3}
    assert summed([]) == Usage()
    some = Taken(ram=1, vcores=2, disk=3, addresses=1)
    assert summed([some, some]) == Usage(ram=2, vcores=4, disk=6, addresses=2)


@given(st.lists(st.tuples(st.sampled_from([Protocol.TCP, Protocol.UDP]), st.integers(1, 65535))))
def test_no_port_is_given_twice(asked: list[tuple[Protocol, int]]) -> None:
    pool = Pool({})
    given = [(protocol, pool.take(protocol, number)) for protocol, number in asked]
    assert len(set(given)) == len(given)


@pytest.mark.parametrize("phase", Phase)
def test_only_what_is_at_rest_is_deleted(phase: Phase) -> None:
    resting = {Phase.READY, Phase.CREATE_ERROR, Phase.DELETE_ERROR}
    if phase in resting:
        instances.check_delete(phase, Override.NONE)
    else:
        reason = "KEY_UNKNOWN" if phase is Phase.NOT_PRESENT else "APPINST_BUSY"
        assert told(lambda: instances.check_delete(phase, Override.NONE)) == reason
    if phase is not Phase.NOT_PRESENT:
        instances.check_delete(phase, Override.TRANSIENT_STATE)


def test_what_stays_the_same_is_no_change() -> None:
    instances.check_app_change(APP, app(command="other"))
    instances.check_app_change(APP, app(access_ports=APP.access_ports.upper()))
    for more in ({"deployment": "helm"}, {"image_type": ImageType.QCOW}):
        with pytest.raises(Conflict, match=f"^{next(iter(more))} cannot be changed"):
            instances.check_app_change(APP, app(**more))
