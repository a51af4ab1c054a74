"""Whose a node is: who registered it, and the secret that its agent told then.

A program that was let in as an agent speaks for the nodes that its token names and that its user
registered, and for no others. An id stays with that user, also after the node has left, until an
operator frees it. What a node reports is taken from whoever knows its secret, signed in or not.
Operators may speak for any node, as they may change anything."""

import hmac

from api.asking import Context, principal, running
from domain.access import Role
from domain.agents import SECRET, Trust, registrar_of, trust_of
from domain.errors import Forbidden, NotFound
from domain.ports import Vault

FREE = b""
"""Whose a node is that an operator has freed."""


class Belonging:
    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def claim(self, node: str, trust: Trust) -> None:
        """Remember that the node is the caller's, and what its agent told."""
        await self._vault.keep(registrar_of(node), principal().name.encode())
        await self._vault.keep(trust_of(node), trust.kept())

    async def free(self, node: str) -> None:
        """Let the node be registered by whoever is let in for it."""
        await self._vault.keep(registrar_of(node), FREE)

    async def check(self, node: str, pool: str | None = None) -> None:
        """Forbidden if the node is another agent's, or none that the caller's token names."""
        who = principal()
        if who.role is not Role.AGENT:
            return
        if not running().session.node_scope.holds(node, pool):
            where = f" in pool {pool}" if pool is not None else ""
            raise Forbidden(
                f"the token of {who.name} does not name node {node}{where}",
                subject=node,
                reason="NODE_NOT_YOURS",
                do=f"an administrator makes one: windlass token create --user {who.name} "
                f"--node {node}",
            )
        registrar = await self._kept(registrar_of(node))
        if registrar not in (None, FREE, who.name.encode()):
            raise Forbidden(
                f"{who.name} did not register node {node}, and speaks for its own nodes alone",
                subject=node,
                reason="NODE_NOT_YOURS",
                do="run its agent with a token of the user that registered it, or have an operator "
                "free the id: windlass node free",
            )

    async def succeed(self, node: str, trust: Trust) -> None:
        """Forbidden if the node's agent has shown that it has its certificate's key, and nothing
        would have to show that any more."""
        kept = await self._kept(trust_of(node))
        if kept and Trust.opened(kept).certificate and not trust.certificate:
            raise Forbidden(
                f"node {node} has spoken TLS and does not any more",
                subject=node,
                reason="NODE_NOT_YOURS",
                do="start its agent with its certificate and key, or unregister the node first",
            )

    async def prove(self, node: str, context: Context) -> None:
        """Forbidden unless the call carries the secret that the node's agent told when it
        registered. NotFound if there was no such node."""
        await self.check(node)
        kept = await self._kept(trust_of(node))
        if kept is None:
            raise NotFound(
                f"there is no node {node}",
                subject=node,
                reason="NODE_NOT_REGISTERED",
                do="register first",
            )
        carried = dict(context.invocation_metadata() or ()).get(SECRET, "")
        raw = carried if isinstance(carried, bytes) else carried.encode()
        wanted = Trust.opened(kept).secret.encode()
        if wanted and not hmac.compare_digest(raw, wanted):
            raise Forbidden(
                f"this is not what node {node} told when it registered: it is not the node",
                subject=node,
                reason="NODE_NOT_YOURS",
                do="register first; an agent of ours does so by itself",
            )

    async def _kept(self, reference: str) -> bytes | None:
        try:
            return await self._vault.open(reference)
        except NotFound:
            return None
