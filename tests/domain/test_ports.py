from domain import ports
from domain.cluster import ClusterPlan
from domain.machine import Machine, Role, Slot
from domain.ports import Endpoint, Joining, Node
from domain.releases import Release

SLOT = Slot(
    cluster_uid="uid-1",
    cluster="hello",
    name="control-plane-bcdfg",
    role=Role.CONTROL_PLANE,
    pool="control-plane",
    release=Release(version="1.32.1", series="jammy"),
    public_key="ssh-ed25519 AAAA",
)
MACHINE = Machine(slot=SLOT, system_id="abc")
PLAN = ClusterPlan(
    uid="uid-1",
    name="hello",
    release=SLOT.release,
    endpoint="hello.windlass.test",
    control_plane=(SLOT,),
)


def test_everything_of_a_cluster_lies_below_its_uid() -> None:
    references = {ports.ssh_key("uid-1"), ports.kubeconfig("uid-1"), ports.host_key(MACHINE)}
    assert len(references) == 3
    assert all(reference.startswith("cluster/uid-1/") for reference in references)


def test_another_machine_in_the_slot_has_a_host_key_of_its_own() -> None:
    other = MACHINE.model_copy(update={"system_id": "def"})
    assert ports.host_key(other) != ports.host_key(MACHINE)


def test_a_plan_is_known_by_its_mark() -> None:
    mark = ports.mark(PLAN)
    assert (mark.uid, mark.name, mark.endpoint, mark.slots) == (
        "uid-1",
        "hello",
        "hello.windlass.test",
        (SLOT,),
    )


def test_steps_are_known_by_what_they_are_done_to() -> None:
    joining = Joining(machine=MACHINE, through=MACHINE, endpoint=PLAN.endpoint)
    node = Node(slot=SLOT, endpoint=PLAN.endpoint)
    assert {joining.named, node.named, MACHINE.named} == {SLOT.name}
    assert Endpoint(cluster_uid="uid-1", name=PLAN.endpoint).named == PLAN.endpoint
    assert ports.mark(PLAN).named == "hello"
