"""MAAS: machines that can be taken, installed and given back, and names for them."""

from clients.maas.machines import MaasMachines
from clients.maas.names import MaasEndpoints
from clients.maas.transport import Maas

__all__ = ["Maas", "MaasEndpoints", "MaasMachines"]
