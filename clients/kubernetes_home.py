"""What a cluster's API is asked for when storage runs in it."""

from typing import Any

from lightkube import AsyncClient
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import Node, Pod

from domain.storage_home import COMPONENT, KINDS, OURS, ROOK, ROOK_VERSION, Listed

PAGE = 500
FORBIDDEN, NOT_THERE = 403, 404

ROOKS = {
    kind: create_namespaced_resource(ROOK, ROOK_VERSION, kind, plural)
    for kind, plural in KINDS.items()
}


async def runs_in(client: AsyncClient, namespace: str) -> Listed:
    """Everything in that namespace that is storage, and all nodes."""
    owned = {"labels": {COMPONENT: OURS}, "namespace": namespace}
    rook = {kind: await _rooks(client, each, namespace) for kind, each in ROOKS.items()}
    return Listed(
        nodes=await _all(client, Node),
        pods=await _all(client, Pod, **owned),
        deployments=await _all(client, Deployment, namespace=namespace),
        rook={kind: found for kind, found in rook.items() if found != ()},
    )


async def _rooks(
    client: AsyncClient, kind: Any, namespace: str
) -> tuple[dict[str, Any], ...] | None:
    """None: we may not. Nothing: there is none, or the API does not know the kind."""
    try:
        return await _all(client, kind, namespace=namespace)
    except ApiError as error:
        if error.status.code == NOT_THERE:
            return ()
        if error.status.code == FORBIDDEN:
            return None
        raise


async def _all(client: AsyncClient, kind: Any, **narrowed: Any) -> tuple[dict[str, Any], ...]:
    found = client.list(kind, chunk_size=PAGE, **narrowed)
    return tuple([_plain(each) async for each in found])


def _plain(it: Any) -> dict[str, Any]:
    """The document again, with times as the API writes them."""
    document: dict[str, Any] = it.to_dict()
    return document
