"""Of which cloudlets whoever calls may speak: whose token is bound to some, of those alone."""

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
            do="use a token that is bound to it: windlass token create LABEL --cloudlet "
            "OPERATOR/NAME",
        )


def hold_to_own(*, filtered: bool) -> None:
    """Forbidden, if whoever calls may speak of some cloudlets alone, and wants to hear of all."""
    session = running().session
    if session.cloudlets and not filtered:
        raise Forbidden(
            f"{session.principal.name} may not hear of all cloudlets with this token",
            subject=session.principal.name,
            do="set filter_cloudlet_key, as resource managers do",
        )
