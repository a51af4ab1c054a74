"""The whole suite, as `make test` runs it: in company first, and what fails there once more alone.

Tests here start servers, kill processes and wait for them; on two busy cores one of thousands may
lose a race against the machine. A test that also fails alone is a fault, and so are many failures:
then nothing is run again. What passed alone only is named, so that nobody overlooks it."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FAILED = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"

FEW = 25
"""As many may have lost a race. More than that are a fault."""

TESTS_FAILED = 1
"""pytest's exit code when all ran and some failed. Any other is no matter of tests."""


def suite(*options: str) -> int:
    """Run pytest and return its exit code."""
    command = [sys.executable, "-m", "pytest", "-q", *options]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def main(options: list[str]) -> int:
    FAILED.unlink(missing_ok=True)
    code = suite("-n", "3", "--dist", "worksteal", *options)
    if code != TESTS_FAILED or not FAILED.exists():
        return code
    failed = sorted(json.loads(FAILED.read_text()))
    if not 0 < len(failed) <= FEW:
        return code
    print(f"\n{len(failed)} failed in company and are run once more, alone:", *failed, sep="\n  ")
    return suite("--last-failed", "--last-failed-no-failures", "none", *options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
