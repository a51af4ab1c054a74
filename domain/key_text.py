"""Keys as text: what everything at the edge is kept under, sorted by, and called in some refusals.

The first controller was written in Go, and its JSON stands in what clients compare; so names stand
as in the contract, empty ones are left out, keys in keys never are, and what Go escapes is
escaped."""

import json
from typing import Any

from domain.appinst import AppInstKey
from domain.cloudlet import CloudletKey
from domain.clusterinst import ClusterInstKey
from domain.refusal import Refusal, refuse_if

LONGEST = 1200
"""Bytes. Longer than all names that people give, and short enough for every index."""

_ESCAPED = str.maketrans({letter: f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"})


def written(plain: dict[str, Any]) -> str:
    """A key as text, from its names as the contract has them. Invalid if it is too long."""
    return limited(json.dumps(_kept(plain), ensure_ascii=False, separators=(",", ":")))


def limited(text: str) -> str:
    escaped = text.translate(_ESCAPED)
    refuse_if(len(escaped.encode()) > LONGEST, Refusal.KEY_TOO_LONG, most=LONGEST)
    return escaped


def name_text(name: str) -> str:
    """The key of what goes by a single name: a developer, a flavor, a template."""
    return written({"name": name})


def cloudlet_text(key: CloudletKey) -> str:
    return written(_cloudlet(key))


def clusterinst_text(key: ClusterInstKey) -> str:
    return written(_clusterinst(key))


def app_text(key: AppInstKey) -> str:
    """The key of the app of an instance."""
    return written(_app(key))


def appinst_text(key: AppInstKey) -> str:
    return written({"app_key": _app(key), "cluster_inst_key": _clusterinst(key.cluster)})


def _cloudlet(key: CloudletKey) -> dict[str, Any]:
    return {"operator_key": {"name": key.operator}, "name": key.name}


def _clusterinst(key: ClusterInstKey) -> dict[str, Any]:
    return {
        "cluster_key": {"name": key.cluster},
        "cloudlet_key": _cloudlet(key.cloudlet),
        "developer": key.developer,
    }


def _app(key: AppInstKey) -> dict[str, Any]:
    return {"developer_key": {"name": key.developer}, "name": key.app, "version": key.version}


def _kept(plain: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _kept(value) if isinstance(value, dict) else value
        for name, value in plain.items()
        if value or isinstance(value, dict)
    }
