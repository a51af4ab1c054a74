"""Numbers in sentences."""


def several(count: int, one: str, more: str = "") -> str:
    """So many of something: `1 node`, `2 nodes`, `1 is`, `2 are`."""
    return f"{count} {one if count == 1 else more or one + 's'}"
