"""A9: an agent is asked nowhere but on a machine of its own."""

import socket

import pytest

from api.kudo.addresses import judged
from domain.errors import Invalid


def own_address() -> str:
    """One by which this machine is reached from others, if it has any."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:7233",
        "127.8.8.8:22",
        "localhost:7233",
        "[::1]:7233",
        "[::ffff:127.0.0.1]:7233",
        "[64:ff9b::7f00:1]:7233",
        "[2002:7f00:1::]:7233",
        "169.254.169.254:80",
        "[fe80::1]:80",
        "0.0.0.0:50053",
        "[::]:50053",
        "255.255.255.255:50053",
        "224.0.0.1:50053",
        "240.0.0.1:50053",
        f"{own_address()}:7233",
        "dns:///somewhere:7233",
        "unix:/run/some.sock",
        "ipv4:10.0.0.1:7233,10.0.0.2:7233",
        "10.0.0.1",
        "10.0.0.1:0",
        "10.0.0.1:99999",
        "no-such-host.invalid:50053",
        "",
    ],
)
async def test_an_agent_is_not_asked_at(address: str) -> None:
    with pytest.raises(Invalid) as refusal:
        await judged(address, local=False)
    assert refusal.value.reason == "AGENT_ADDRESS_INVALID"


async def test_an_address_is_resolved_once_and_dialled_as_a_number() -> None:
    assert await judged("192.0.2.7:50053", local=False) == "192.0.2.7:50053"
    assert await judged("[2001:db8::7]:50053", local=False) == "[2001:db8::7]:50053"
    assert await judged("localhost:50053", local=True) in ("127.0.0.1:50053", "[::1]:50053")


@pytest.mark.parametrize("address", ["unix:/run/some.sock", "dns:///localhost:1"])
async def test_a_trial_site_is_asked_at_host_and_port_as_well(address: str) -> None:
    with pytest.raises(Invalid):
        await judged(address, local=True)
