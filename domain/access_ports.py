"""Access ports: where an app is reached, as its developer writes them: `tcp:80,udp:53`."""

import re
from enum import StrEnum

from domain.frozen import Frozen
from domain.refusal import Refusal, refuse_if

MOST = 1000
"""Ten times what is ordinary: every port becomes a line of a manifest and a port of a cloudlet."""

LARGEST = 65535

_NUMBER = re.compile(r"[+-]?[0-9]+")
_INT32_DIGITS = 10


class Protocol(StrEnum):
    TCP = "tcp"
    UDP = "udp"
    HTTP = "http"


class Port(Frozen):
    protocol: Protocol
    number: int


def parse(text: str) -> tuple[Port, ...]:
    """The ports in the order in which they were written. One may stand twice; there may be none."""
    if not text:
        return ()
    number = text.count(",") + 1
    refuse_if(number > MOST, Refusal.PORTS_TOO_MANY, number=number, most=MOST)
    return tuple(_port(element) for element in text.split(","))


def _port(element: str) -> Port:
    protocol, *number = element.split(":")
    refuse_if(len(number) != 1, Refusal.PORT_FORMAT, text=protocol)
    known = protocol.lower() in set(Protocol)
    refuse_if(not known, Refusal.PORT_PROTOCOL, protocol=protocol)
    return Port(protocol=Protocol(protocol.lower()), number=_number(number[0]))


def _number(text: str) -> int:
    """A port's number as the first controller read it: digits with a sign perhaps, in 32 bits."""
    if not _NUMBER.fullmatch(text):
        raise _unreadable(text, "invalid syntax")
    digits = text.lstrip("+-").lstrip("0") or "0"
    number = int(digits) if len(digits) <= _INT32_DIGITS else 2**32
    number = -number if text.startswith("-") else number
    if not -(2**31) <= number < 2**31:
        raise _unreadable(text, "value out of range")
    refuse_if(not 1 <= number <= LARGEST, Refusal.PORT_RANGE, number=number)
    return number


def _unreadable(text: str, why: str) -> Exception:
    quoted = text.replace("\\", r"\\").replace('"', r"\"")
    return Refusal.PORT_NUMBER(text=text, why=f'strconv.ParseInt: parsing "{quoted}": {why}')
