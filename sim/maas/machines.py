"""The region's machines, and what may be asked about them."""

import json
from collections.abc import Iterable
from typing import Any

from sim.maas import view
from sim.maas.call import Call, Refusal, Written
from sim.maas.constraints import FILTERS, Vocabulary, chosen
from sim.maas.machine import USER, Machine, Status, Stocked
from sim.maas.turns import Turns


class Machines:
    """The region's machines. The stock adds to those in the ledger and takes none away."""

    def __init__(
        self,
        stock: Iterable[Stocked],
        *,
        known: dict[str, Machine],
        turns: Turns,
        network: str,
        domain: str,
    ) -> None:
        self._turns = turns
        self._network, self._domain = network, domain
        self.all = dict(sorted(known.items(), key=lambda item: item[1].number))
        for stocked in stock:
            if stocked.system_id not in self.all:
                machine = self._enlist(stocked)
                self.all[machine.system_id] = machine
                turns.keep(machine)
        self.vocabulary = Vocabulary(self.all.values())
        self._written: dict[str, tuple[str, str]] = {}

    def _enlist(self, stocked: Stocked) -> Machine:
        number = max((machine.number for machine in self.all.values()), default=0) + 1
        high, low = divmod(number, 250)
        return Machine(
            number=number,
            address=f"{self._network}.{high}.{low + 1}",
            system_id=stocked.system_id,
            **stocked.model_dump(),
        )

    def resume(self) -> None:
        for machine in self.all.values():
            self._turns.resume(machine)

    def view(self, machine: Machine) -> dict[str, Any]:
        return view.machine(
            machine,
            domain=self._domain,
            network=self._network,
            zones=self.vocabulary.zones,
            pools=self.vocabulary.pools,
        )

    def _write(self, machine: Machine) -> str:
        """The machine as JSON, remembered as long as it stays as it is: a list holds hundreds."""
        state = machine.model_dump_json()
        before, text = self._written.get(machine.system_id, ("", ""))
        if state != before:
            text = json.dumps(self.view(machine), indent=4)
            self._written[machine.system_id] = state, text
        return text

    def _list(self, machines: Iterable[Machine]) -> Written:
        return Written("[" + ",\n".join(map(self._write, machines)) + "]")

    def listed(self, call: Call) -> Written:
        self.vocabulary.check(call.parameters)
        return self._list(chosen(self.all.values(), call.parameters, FILTERS))

    def list_allocated(self, call: Call) -> Written:
        ids = call.all("id")
        return self._list(
            machine
            for machine in self.all.values()
            if machine.owner == USER
            and machine.status is Status.ALLOCATED
            and (not ids or machine.system_id in ids)
        )

    def read(self, call: Call) -> Written:
        return Written(self._write(self.found(call)))

    def power_state(self, call: Call) -> dict[str, str]:
        return {"state": "on" if self.found(call).powered else "off"}

    def zones(self, _: Call) -> list[dict[str, Any]]:
        names = self.vocabulary.zones
        return [view.zone(name, names) for name in names]

    def pools(self, _: Call) -> list[dict[str, Any]]:
        names = self.vocabulary.pools
        return [view.pool(name, names) for name in names]

    def tags(self, _: Call) -> list[dict[str, Any]]:
        return [self._tag(name) for name in self.vocabulary.tags]

    def tag(self, call: Call) -> dict[str, Any]:
        return self._tag(self._known_tag(call))

    def tagged(self, call: Call) -> Written:
        name = self._known_tag(call)
        return self._list(machine for machine in self.all.values() if name in machine.tags)

    def _known_tag(self, call: Call) -> str:
        if call.at["name"] not in self.vocabulary.tags:
            raise Refusal(404, "No Tag matches the given query.")
        return call.at["name"]

    def _tag(self, name: str) -> dict[str, Any]:
        uri = f"{view.API}tags/{name}/"
        return {
            "name": name,
            "definition": "",
            "comment": "",
            "kernel_opts": "",
            "resource_uri": uri,
        }

    def found(self, call: Call) -> Machine:
        """The machine that the path names."""
        machine = self.all.get(call.at["system_id"])
        if machine is None:
            raise Refusal(404, "No Machine matches the given query.")
        return machine
