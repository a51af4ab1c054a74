"""Everything the site ever wrote down about its machines and hosts, in the order it happened.

The site's ledger gets a line before any change is answered, and is rewritten when the site starts.
So whoever reads it to its end between a death and the next start misses nothing."""

import json
from pathlib import Path
from typing import Any

KINDS = ('{"kind": "maas-machine"', '{"kind": "host"')
MAKING = frozenset({"init", "join"})
"""The runs of kubeadm of which a host may see one to its good end."""


class Chronicle:
    """What was ever so, of that which must never be so."""

    def __init__(self, path: Path) -> None:
        self.doubled: list[str] = []
        """Machines that went from one slot to another without being free in between, and slots
        that held two machines at the same time."""
        self.rerun: set[str] = set()
        """Hosts on which kubeadm ran for a second time after a good end, or twice at a time."""
        self.allocations = 0
        self.runs: set[tuple[str, float]] = set()
        self._path = path
        self._file = 0
        self._offset = 0
        self._held: dict[str, str] = {}

    def read_on(self) -> None:
        """Take in what was written since. A line that was cut off by a kill was never answered."""
        try:
            with self._path.open("rb") as ledger:
                file = self._path.stat().st_ino
                if file != self._file:
                    self._file, self._offset = file, 0
                ledger.seek(self._offset)
                text = ledger.read()
        except FileNotFoundError:
            return
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.decode().splitlines():
            if line.startswith(KINDS):
                entry = json.loads(line)
                if entry["record"] is not None:
                    self._take(entry["kind"], entry["id"], entry["record"])

    def _take(self, kind: str, identity: str, record: dict[str, Any]) -> None:
        if kind == "host":
            self._host(identity, record)
        else:
            self._machine(identity, record["agent_name"])

    def _machine(self, system_id: str, slot: str) -> None:
        before = self._held.get(system_id, "")
        if slot == before:
            return
        self._held[system_id] = slot
        if not slot:
            return
        self.allocations += 1
        if before:
            self.doubled.append(f"{system_id} went from {before} to {slot}")
        others = [one for one, name in self._held.items() if name == slot and one != system_id]
        self.doubled += [f"{slot} held {one} and {system_id}" for one in others]

    def _host(self, system_id: str, record: dict[str, Any]) -> None:
        self.rerun.update(record["violations"])
        latest: dict[str, Any] | None = None
        for run in record["kubeadm"]["runs"]:
            if run["verb"] not in MAKING:  # a reset, after which it may be made anew
                latest = None
                continue
            self.runs.add((system_id, run["started"]))
            if latest is not None and (latest["ended"] is None or latest["result"] == "ok"):
                self.rerun.add(
                    f"{system_id}: {run['verb']} at {run['started']:.3f} after {latest['verb']} "
                    f"at {latest['started']:.3f}, {latest['result'] or 'which had not ended'}"
                )
            latest = run
