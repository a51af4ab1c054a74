import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.access_ports import Port, Protocol, parse
from domain.errors import Invalid

ports = st.builds(Port, protocol=st.sampled_from(Protocol), number=st.integers(1, 65535))

UNREADABLE = 'Failed to convert port {0} to integer: strconv.ParseInt: parsing "{0}": {1}'


@given(st.lists(ports, max_size=20))
def test_reads_what_is_written(written: list[Port]) -> None:
    text = ",".join(f"{port.protocol}:{port.number}" for port in written)
    assert parse(text) == tuple(written)
    assert parse(text.upper()) == tuple(written)


@pytest.mark.parametrize("text", ["tcp:+80", "tcp:0080", f"tcp:{'0' * 5000}80"])
def test_reads_numbers_as_the_first_controller_did(text: str) -> None:
    assert parse(text) == (Port(protocol=Protocol.TCP, number=80),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tcp", "Invalid Access Ports format, expected proto:port but was tcp"),
        ("x:1:2", "Invalid Access Ports format, expected proto:port but was x"),
        ("tcp:1,", "Invalid Access Ports format, expected proto:port but was "),
        (" tcp:1", " tcp is not a supported Protocol"),
        ("Sctp:0", "Sctp is not a supported Protocol"),
        ("tcp:", UNREADABLE.format("", "invalid syntax")),
        ("tcp:8-9", UNREADABLE.format("8-9", "invalid syntax")),
        ("tcp:1_0", UNREADABLE.format("1_0", "invalid syntax")),
        ("tcp:٣", UNREADABLE.format("٣", "invalid syntax")),
        ("tcp:2147483648", UNREADABLE.format("2147483648", "value out of range")),
        ("tcp:-2147483649", UNREADABLE.format("-2147483649", "value out of range")),
        (f"tcp:{'9' * 5000}", UNREADABLE.format("9" * 5000, "value out of range")),
        ("tcp:2147483647", "Port 2147483647 out of range"),
        ("tcp:-1", "Port -1 out of range"),
        ("udp:0", "Port 0 out of range"),
        ("tcp:1,udp:0,x", "Port 0 out of range"),
    ],
)
def test_refuses_the_first_that_is_wrong(text: str, said: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse(text)
    assert refused.value.message == said


def test_an_unreadable_number_is_quoted() -> None:
    with pytest.raises(Invalid) as refused:
        parse('tcp:"\\')
    assert refused.value.message.endswith('parsing "\\"\\\\": invalid syntax')
