"""Who may call a node agent: its control plane, which was told a secret when the node registered.

The secret is drawn once and kept in the agent's own memory, so that after a restart the control
plane's calls are taken before the node has registered again."""

import hmac
from secrets import token_urlsafe

from agent.ledger import Ledger
from api.access import EVERY_ROLE, OPEN
from api.gate import AUTHORIZATION, Heard, NoGate
from domain.access import Permission, Session
from domain.errors import Unauthenticated

HEALTH = "grpc.health.v1.Health/"
SECRET_BYTES = 32


def secret(ledger: Ledger) -> str:
    """The secret of the agent whose memory this is."""
    return ledger.remembered("secret") or ledger.remember("secret", token_urlsafe(SECRET_BYTES))


class ControlGate(NoGate):
    """Lets whoever carries the secret use everything, and everybody ask after its health."""

    def __init__(self, secret: str) -> None:
        self._wanted = f"Bearer {secret}".encode()

    def permission(self, method: str) -> Permission:
        return OPEN if method.startswith(HEALTH) else Permission(EVERY_ROLE)

    async def recognised(self, asked: Permission, line: Heard) -> Session:
        carried = dict(line.invocation_metadata() or ()).get(AUTHORIZATION, "")
        if asked.roles is not None and not hmac.compare_digest(_raw(carried), self._wanted):
            raise Unauthenticated(
                "this agent takes calls from its control plane alone",
                reason="AGENT_SECRET_WRONG",
                do="ask the control plane, which asks the agent: windlass instance",
            )
        return self._everybody


def _raw(carried: str | bytes) -> bytes:
    return carried if isinstance(carried, bytes) else carried.encode()
