"""A program `ceph` for tests: it says what lies in its folder, or finds no mon."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SCRIPT = """#!/bin/sh
echo "$@" >> "{home}/asked"
if [ -e "{home}/hangs" ]; then sleep 600; fi
if [ -e "{home}/refused" ]; then echo "access denied" >&2; exit 13; fi
if [ ! -e "{home}/status" ]; then
  echo "AuthRegistry(0x7ff5) no keyring found at /etc/ceph/keyring, disabling cephx" >&2
  echo "timed out" >&2
  exit 1
fi
case "$*" in *"osd dump"*) cat "{home}/dump";; *) cat "{home}/status";; esac
"""


class FakeProgram:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.conf, self.keyring = home / "ceph.conf", home / "keyring"
        script = home / "ceph"
        script.write_text(SCRIPT.format(home=home))
        script.chmod(0o755)

    def says(self, status: Mapping[str, Any] | None, *up: int) -> None:
        """None: no mon answers. `up`: the OSDs that are."""
        if status is None:
            (self.home / "status").unlink(missing_ok=True)
            return
        (self.home / "status").write_text(json.dumps(status))
        osds = [{"osd": osd, "up": int(osd in up), "in": 1} for osd in range(6)]
        (self.home / "dump").write_text(json.dumps({"osds": osds}))

    def set(self, what: str) -> None:
        (self.home / what).touch()

    @property
    def asked(self) -> list[str]:
        return (self.home / "asked").read_text().splitlines()
