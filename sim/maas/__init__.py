"""A MAAS region, served over HTTP.

Read `region`, `routes` and `call`, then `machine`, `machines`, `constraints`, `orders` and `turns`;
`view`, `events` and `names` are what clients see of it all."""

from sim.maas.machine import Stocked
from sim.maas.region import SimulatedMaas

__all__ = ["SimulatedMaas", "Stocked"]
