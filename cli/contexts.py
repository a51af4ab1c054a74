"""Contexts: servers by names of one's own, and who one is there. Tokens lie in a file that nobody
else may read."""

import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Self

from cli.complaints import Code, Complaint

USUAL = "default"


@dataclass(frozen=True)
class Context:
    """A server, and the token to call it with."""

    address: str = ""
    http: str = ""
    user: str = ""
    token: str = ""
    ca: str = ""
    """A file with whom we trust to be that server. Empty: nothing is encrypted."""
    cert: str = ""
    """A file with a certificate that says who we are. Empty: there is none."""
    key: str = ""
    """A file with its key."""

    @property
    def pair(self) -> tuple[str, str]:
        """The certificate and its key."""
        return self.cert, self.key


@dataclass(frozen=True)
class Contexts:
    current: str = USUAL
    known: dict[str, Context] = field(default_factory=dict)

    def chosen(self, name: str | None) -> Context:
        """The context of a name, or the current one, which need not be there."""
        if name and name not in self.known:
            raise Complaint(
                f"there is no context {name}",
                Code.USAGE,
                do="windlass context list shows them, windlass login --save-as makes one",
            )
        return self.known.get(name or self.current, Context())

    def having(self, name: str, context: Context) -> Self:
        """With this context, which is the current one now."""
        return replace(self, current=name, known={**self.known, name: context})

    def without(self, name: str) -> Self:
        self.chosen(name)
        left = {each: context for each, context in self.known.items() if each != name}
        return replace(self, current=USUAL if self.current == name else self.current, known=left)

    def save(self) -> None:
        """Write the file anew, whole, for its owner alone."""
        path = place()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(asdict(self), file, indent=2)
        fresh.replace(path)


def place() -> Path:
    """Where contexts are kept."""
    if said := os.environ.get("WINDLASS_CONTEXTS"):
        return Path(said)
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "windlass" / "contexts.json"


def load() -> Contexts:
    """The contexts there are."""
    path = place()
    try:
        with path.open() as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise Complaint(
                    f"{path} holds tokens and can be read by others", do=f"chmod 600 {path}"
                )
            said = json.load(file)
        known = {name: Context(**context) for name, context in said["known"].items()}
        return Contexts(said["current"], known)
    except FileNotFoundError:
        return Contexts()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Complaint(f"{path} cannot be read: {error}", do="correct it, or delete it") from error
