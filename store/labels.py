"""Labels as rows keep them."""

import json
from collections.abc import Mapping
from functools import lru_cache


@lru_cache(maxsize=4096)
def labels_of(text: str) -> Mapping[str, str]:
    """Labels from their JSON. The nodes of a pool mostly have the same, and are read all the
    time."""
    found: dict[str, str] = json.loads(text or "{}")
    return found


def written(labels: Mapping[str, str]) -> str:
    """Their JSON, the same for the same labels."""
    return json.dumps(dict(labels), sort_keys=True) if labels else ""
