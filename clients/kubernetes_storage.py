"""What a cluster is told so that its claims become block devices of its pool in Ceph.

The driver itself, ceph-csi, is for whoever uses the cluster to install: it looks for its
configuration under these names."""

import json
from typing import Any

from domain.ports import Supply

NAMESPACE = "ceph-csi"
CONFIG, SECRET, CLASS = "ceph-csi-config", "csi-rbd-secret", "ceph-rbd"
"""What the objects are called. The first name is the one that the driver reads."""

PROVISIONER = "rbd.csi.ceph.com"
STEPS = ("provisioner", "controller-expand", "node-stage")


def documents(supply: Supply, key: bytes) -> list[dict[str, Any]]:
    """The objects, in the order in which they need each other."""
    made, identity = supply.made, supply.identity
    clusters = [{"clusterID": made.cluster, "monitors": list(made.mons)}]
    secrets = {
        f"csi.storage.k8s.io/{step}-secret-{what}": value
        for step in STEPS
        for what, value in (("name", SECRET), ("namespace", NAMESPACE))
    }
    placed = {"namespace": NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG, **placed},
            "data": {"config.json": json.dumps(clusters)},
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SECRET, **placed},
            "stringData": {"userID": identity.user, "userKey": key.decode()},
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": CLASS},
            "provisioner": PROVISIONER,
            "parameters": {
                "clusterID": made.cluster,
                "pool": made.wanted.name,
                "imageFeatures": "layering",
                "csi.storage.k8s.io/fstype": "ext4",
                **secrets,
            },
            "reclaimPolicy": "Delete",
            "allowVolumeExpansion": True,
        },
    ]
