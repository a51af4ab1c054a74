"""Which machines a caller means: the filters of the list and the constraints of an allocation."""

from collections.abc import Callable, Iterable, Mapping

from sim.maas.call import Refusal
from sim.maas.machine import LABELS, Machine

Matches = Callable[[Machine, list[str]], bool]


def _architecture(machine: Machine, wanted: list[str]) -> bool:
    return any(machine.architecture in (want, f"{want}/generic") for want in wanted)


def _named(machine: Machine, wanted: list[str]) -> bool:
    return any(machine.hostname == want.split(".")[0] for want in wanted)


_SHARED: dict[str, Matches] = {
    "arch": _architecture,
    "cpu_count": lambda machine, wanted: machine.cpu_count >= float(wanted[0]),
    "mem": lambda machine, wanted: machine.memory >= float(wanted[0]),
    "tags": lambda machine, wanted: set(wanted) <= set(machine.tags),
    "not_tags": lambda machine, wanted: not set(wanted) & set(machine.tags),
    "zone": lambda machine, wanted: machine.zone in wanted,
    "not_in_zone": lambda machine, wanted: machine.zone not in wanted,
    "pool": lambda machine, wanted: machine.pool in wanted,
    "not_in_pool": lambda machine, wanted: machine.pool not in wanted,
}

FILTERS: dict[str, Matches] = _SHARED | {
    "id": lambda machine, wanted: machine.system_id in wanted,
    "hostname": _named,
    "mac_address": lambda machine, wanted: machine.mac_address in wanted,
    "agent_name": lambda machine, wanted: machine.agent_name == wanted[0],
    "status": lambda machine, wanted: machine.status.name.lower() in wanted,
    "not_id": lambda machine, wanted: machine.system_id not in wanted,
    "not_hostname": lambda machine, wanted: not _named(machine, wanted),
    "not_agent_name": lambda machine, wanted: machine.agent_name not in wanted,
    "not_status": lambda machine, wanted: machine.status.name.lower() not in wanted,
}
"""What `GET machines/` listens to. Other parameters are ignored, as MAAS does."""

CONSTRAINTS: dict[str, Matches] = _SHARED | {
    "name": _named,
    "system_id": lambda machine, wanted: machine.system_id in wanted,
}
"""What an allocation may ask for. Other parameters are refused, as MAAS does."""

OPTIONS = frozenset(
    {
        "agent_name",
        "bridge_all",
        "bridge_fd",
        "bridge_stp",
        "bridge_type",
        "comment",
        "dry_run",
        "verbose",
    }
)
"""What an allocation may say besides."""


class Vocabulary:
    """The names that exist in a region, against which parameters are checked."""

    def __init__(self, machines: Iterable[Machine]) -> None:
        self.tags = sorted({tag for machine in machines for tag in machine.tags})
        self.zones = sorted({machine.zone for machine in machines} | {"default"})
        self.pools = ["default", *sorted({machine.pool for machine in machines} - {"default"})]

    def check(self, wanted: Mapping[str, list[str]]) -> None:
        """Refuse what cannot be meant, every field that is wrong at once."""
        wrong = {
            name: [complaint]
            for name, values in wanted.items()
            if (complaint := self._complaint(name, values))
        }
        if wrong:
            raise Refusal(400, wrong)

    def _complaint(self, name: str, values: list[str]) -> str:
        match name:
            case "tags" | "not_tags":
                unknown = [value for value in values if value not in self.tags]
                return f"No such tag(s): {', '.join(map(repr, unknown))}." if unknown else ""
            case "zone" | "not_in_zone":
                unknown = [value for value in values if value not in self.zones]
                return f"No such zone: {unknown[0]!r}." if unknown else ""
            case "pool" | "not_in_pool":
                unknown = [value for value in values if value not in self.pools]
                return f"No such pool: {unknown[0]!r}." if unknown else ""
            case "status" | "not_status":
                unknown = [value for value in values if value not in LABELS]
                choices = "is not one of the available choices."
                return f"Select a valid choice. {unknown[0]} {choices}" if unknown else ""
            case "mem":
                return "" if _number(values[0]) else "Invalid memory: number of MiB required."
            case "cpu_count":
                return "" if _number(values[0]) else "Invalid CPU count: number required."
        return ""


def _number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def chosen(
    machines: Iterable[Machine], wanted: Mapping[str, list[str]], by: Mapping[str, Matches]
) -> list[Machine]:
    """The machines that match all of `wanted`, in the order they came."""
    asked = [(by[name], values) for name, values in wanted.items() if name in by and values]
    return [
        machine
        for machine in machines
        if all(matches(machine, values) for matches, values in asked)
    ]


def check_names(wanted: Mapping[str, list[str]]) -> None:
    """Refuse an allocation by what no region knows."""
    unknown = sorted(wanted.keys() - CONSTRAINTS.keys() - OPTIONS)
    if unknown:
        raise Refusal(400, {name: ["No such constraint."] for name in unknown})


def nothing_left(wanted: Mapping[str, list[str]]) -> Refusal:
    """No machine for this allocation, said as MAAS says it. It is no request to come back."""
    asked = {name: values for name, values in wanted.items() if name in CONSTRAINTS and values}
    if not asked:
        return Refusal(409, "No machine available.")
    resolved = " ".join(f"{name}={','.join(values)}" for name, values in sorted(asked.items()))
    given = list(wanted.items())
    text = f'No available machine matches constraints: {given} (resolved to "{resolved}")'
    return Refusal(409, text)
