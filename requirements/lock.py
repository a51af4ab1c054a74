"""Writes the lock files: every version with its hashes, and no index's name.

Each extra has a lock of its own, and each agrees with the one it stands on."""

import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).parent
OPTIONS = [
    "--universal",
    "--python-version",
    "3.11",
    "--generate-hashes",
    "--no-emit-index-url",
    "--no-header",
    "--no-annotate",
    "--no-strip-extras",
    "--quiet",
]
LOCKS = {
    "runtime": ["pyproject.toml"],
    "embedded": ["pyproject.toml", "--extra", "embedded", "-c", "requirements/runtime.txt"],
    "dev": [
        *("pyproject.toml", "--extra", "embedded", "--extra", "dev"),
        *("-c", "requirements/embedded.txt"),
    ],
    "libmaas": ["requirements/libmaas.in"],
    "conformance": ["requirements/conformance.in"],
}


WITH_EXTRA = re.compile(
    r"^(?P<name>[\w.-]+)\[[^\]]+\](?P<rest>==[^\n]*\n(?:[ ]+--hash[^\n]*\n)*)", re.M
)
"""A pin of a package with an extra, and its hashes."""


def with_bare_pins(lock: str) -> str:
    """`lock`, where whatever is pinned with an extra is pinned without it, too.

    pip holds the bare name, which other packages ask for, to no pin that names an extra: on the day
    a newer version is out it takes that, and then refuses it for want of a hash."""
    return WITH_EXTRA.sub(lambda pin: f"{pin['name']}{pin['rest']}{pin[0]}", lock)


def main() -> int:
    """Lock with uv, in a virtual environment of its own that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        run = Path(folder) / "bin"
        subprocess.run([run / "pip", "install", "--quiet", "uv"], check=True)  # noqa: S603
        for name, source in LOCKS.items():
            target = f"requirements/{name}.txt"
            command = [f"{run}/uv", "pip", "compile", *source, *OPTIONS, "-o", target]
            subprocess.run([*command, *sys.argv[1:]], check=True, cwd=HERE.parent)  # noqa: S603
            written = HERE.parent / target
            written.write_text(with_bare_pins(written.read_text()))
            print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
