"""Identities of Ceph: who may do what, by which key.

Managers since release 17 have words for them. For those before it Ceph's own program does."""

import re
from typing import Protocol

from clients.ceph.session import Session, unreadable
from domain.errors import Conflict, NotFound, Unsupported
from domain.share import Identity

KEY = re.compile(r"^\s*key\s*=\s*(\S+)\s*$", re.MULTILINE)


class Identities(Protocol):
    async def ensure(self, identity: Identity) -> str:
        """The identity's key, with its rights as they should be."""

    async def revoke(self, identity: Identity) -> None:
        """Take it away. None there is success."""


class RestIdentities:
    """Through the manager."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def ensure(self, identity: Identity) -> str:
        body = {
            "user_entity": identity.entity,
            "capabilities": [{"entity": kind, "cap": cap} for kind, cap in identity.caps.items()],
        }
        try:
            try:
                await self._session.ask("POST", "cluster/user", body)
            except Conflict:  # it is there with other rights
                await self._session.ask("PUT", "cluster/user", body)
            keyring = await self._session.ask(
                "POST", "cluster/user/export", {"entities": [identity.entity]}
            )
        except NotFound as error:
            raise _wordless() from error
        found = KEY.search(str(keyring))
        if found is None:
            raise unreadable("POST cluster/user/export", "a keyring")
        return found[1]

    async def revoke(self, identity: Identity) -> None:
        try:
            await self._session.ask("DELETE", f"cluster/user/{identity.entity}")
        except NotFound as error:
            raise _wordless() from error


def _wordless() -> Unsupported:
    return Unsupported(
        "this release of Ceph has no identities in its REST API",
        reason="CEPH_NO_IDENTITIES",
        do="set WINDLASS_CEPH__CONF_FILE and WINDLASS_CEPH__KEYRING_FILE, and install ceph-common",
    )
