"""Flavors: the sizes things come in."""

from domain.frozen import Frozen
from domain.naming import is_title
from domain.refusal import Refusal, refuse_if


class Flavor(Frozen):
    name: str
    ram: int
    vcpus: int
    disk: int


def check(flavor: Flavor) -> None:
    """Refuse a flavor that is badly named or holds nothing."""
    check_name(flavor.name)
    refuse_if(flavor.ram == 0, Refusal.FLAVOR_RAM)
    refuse_if(flavor.vcpus == 0, Refusal.FLAVOR_VCPUS)
    refuse_if(flavor.disk == 0, Refusal.FLAVOR_DISK)


def check_name(name: str) -> None:
    refuse_if(not is_title(name), Refusal.FLAVOR_NAME)
