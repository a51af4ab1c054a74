"""Amounts as Kubernetes writes them: `16`, `250m`, `65536000Ki`, `479Gi`."""

FACTORS: dict[str, float] = {
    "": 1,
    "m": 1e-3,
    **{unit: 1000.0**power for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{
        unit: 1024.0**power
        for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)
    },
}


def amount(said: str) -> float:
    """The number that is meant. ValueError if it is none."""
    number = said.rstrip("".join(sorted(set("".join(FACTORS)))))
    return float(number) * FACTORS[said[len(number) :]] if said else 0.0
