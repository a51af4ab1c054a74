"""What tests put in the place of a resource manager's word."""

from protos.gen.edge.cloudlet_pb2 import (
    CLOUDLET_STATE_ERRORS,
    CLOUDLET_STATE_READY,
    CloudletInfo,
    FlavorInfo,
)
from tests.api.edge.stubs import Edge, cloudlet

ANY = CloudletInfo()
READY = CloudletInfo(
    key=cloudlet().key,
    state=CLOUDLET_STATE_READY,
    notify_id=7,
    controller="me",
    flavors=[FlavorInfo(name="f")],
)


async def test_what_is_new_is_kept_as_it_is_sent(edge: Edge) -> None:
    await edge("InjectCloudletInfo", READY)
    await edge("InjectCloudletInfo", CloudletInfo(os_max_ram=5))
    assert await edge("ShowCloudletInfo", ANY) == [READY, CloudletInfo(os_max_ram=5)]
    assert await edge("ShowCloudletInfo", CloudletInfo(state=CLOUDLET_STATE_READY)) == [READY]


async def test_of_what_is_there_only_what_is_named_changes(edge: Edge) -> None:
    await edge("InjectCloudletInfo", READY)
    other = CloudletInfo(key=READY.key, state=CLOUDLET_STATE_ERRORS, errors=["broken"])
    await edge("InjectCloudletInfo", other)
    assert await edge("ShowCloudletInfo", ANY) == [READY]
    other.fields.append("3")
    await edge("InjectCloudletInfo", other)
    [shown] = await edge("ShowCloudletInfo", ANY)
    assert (shown.state, shown.controller, list(shown.errors)) == (CLOUDLET_STATE_ERRORS, "me", [])


async def test_what_is_evicted_is_gone(edge: Edge) -> None:
    await edge("InjectCloudletInfo", READY)
    await edge("CreateCloudlet", cloudlet())
    await edge("DeleteCloudlet", cloudlet())
    assert await edge("ShowCloudletInfo", ANY) == [READY], "its resource manager may be connected"
    await edge("EvictCloudletInfo", CloudletInfo(key=READY.key))
    assert (await edge.refused("EvictCloudletInfo", READY)).message == "Key not found"
