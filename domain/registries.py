"""Registries that images come from, and what opens them."""

import base64
import json
import re

from pydantic import Field

from domain.errors import Invalid
from domain.frozen import Frozen

SCHEME, USUAL = "docker://", "docker.io"
OTHERS = ("oci-archive:", "file://", "builtin:")

CREDENTIALS = "windlass-registry"
"""The metadata in which an agent is told what opens the registry of an image."""

HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\d{1,5})?")


class Credentials(Frozen):
    """Who we are to a registry."""

    username: str
    password: str = Field(repr=False)

    def carried(self) -> str:
        """As one word, which is what registries' clients send in a header as well."""
        said = json.dumps({"username": self.username, "password": self.password})
        return base64.urlsafe_b64encode(said.encode()).decode()


def is_host(head: str) -> bool:
    """Whether a reference's first part names a registry, and not a place in the usual one."""
    return "." in head or ":" in head or head == "localhost"


def registry_of(uri: str) -> str:
    """The registry that an image's `uri` leads to, with its port. Empty: to none."""
    if uri.startswith(OTHERS):
        return ""
    head, slash, _ = uri.removeprefix(SCHEME).partition("/")
    return head if slash and is_host(head) else USUAL


def kept_under(registry: str) -> str:
    """Under which reference it lies what opens a registry."""
    return f"registry/{registry}"


def named(registry: str) -> str:
    """The registry, if that can be one. Invalid if not."""
    if not HOST.fullmatch(registry) or not is_host(registry):
        raise Invalid(
            f"{registry!r} is no registry",
            subject=registry,
            reason="REGISTRY_INVALID",
            do="name its host, with the port if it has one of its own: registry.example:5000",
        )
    return registry
