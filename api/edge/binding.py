"""Of which cloudlets whoever calls may speak: agents of those alone that their token names."""

from api.asking import running
from domain.errors import Forbidden
from protos.gen.edge.cloudlet_pb2 import CloudletKey


def hold(key: CloudletKey) -> None:
    """Forbidden, if whoever calls may not speak of a cloudlet."""
    session, cloudlet = running().session, f"{key.operator_key.name}/{key.name}"
    if not session.speaks_of(cloudlet):
        raise Forbidden(
            f"{session.principal.name} may not speak of cloudlet {cloudlet} with this token",
            subject=session.principal.name,
            do=f"use one that may: windlass token create LABEL --user NAME --cloudlet {cloudlet}",
        )


def hold_to_own(*, filtered: bool) -> None:
    """Forbidden, if whoever calls may not speak of every cloudlet, and wants to hear of all."""
    session = running().session
    if not session.speaks_of_any and not filtered:
        raise Forbidden(
            f"{session.principal.name} may not hear of all cloudlets with this token",
            subject=session.principal.name,
            do="set filter_cloudlet_key, as resource managers do, or use a token for any",
        )
