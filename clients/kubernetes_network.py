"""The pod network: the manifest that is applied to every cluster."""

from pathlib import Path
from typing import Any

import yaml
from lightkube.codecs import resource_registry
from lightkube.core.exceptions import LoadResourceError

from domain.errors import Failed

NETWORK = Path(__file__).parent / "data" / "network.json"
"""The pod network that is installed unless another is given: flannel over VXLAN in 10.244.0.0/16,
which must be the cluster's pod subnet."""


def objects(path: Path) -> list[dict[str, Any]]:
    """The objects of a manifest, in its order, those in lists among them. Only of kinds that
    Kubernetes has by itself: objects of a new kind would have to wait for it to be known."""
    documents: list[dict[str, Any]] = []
    try:
        for document in yaml.safe_load_all(path.read_text()):
            if document:
                documents += document["items"] if document["kind"] == "List" else [document]
        for document in documents:
            resource_registry.load(document["apiVersion"], document["kind"])
            document["metadata"]["name"]
    except (OSError, yaml.YAMLError, LookupError, TypeError, LoadResourceError) as error:
        raise Failed(f"the network manifest {path} cannot be applied: {error}") from error
    return documents
