"""Writes the lock files: every version with its hashes, and no index's name.

Each extra has a lock of its own, and each agrees with the one it stands on."""

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
            print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
