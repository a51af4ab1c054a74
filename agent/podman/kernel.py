"""What the kernel says of containers: podman does not tell that one was killed for its memory."""

import os
import re

KMSG = "/dev/kmsg"
KILLED = re.compile(r"oom-kill:.*libpod-([0-9a-f]{64})")


def killed_for_memory(container: str) -> bool:
    """Whether the kernel's log tells so. A log that cannot be read tells nothing."""
    return container in _killed()


def _killed() -> set[str]:
    try:
        kmsg = os.open(KMSG, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return set()
    found: set[str] = set()
    try:
        while True:
            try:
                found |= set(KILLED.findall(os.read(kmsg, 8192).decode(errors="replace")))
            except BrokenPipeError:
                continue  # older lines were overwritten while we read
            except OSError:  # that was the last one
                return found
    finally:
        os.close(kmsg)
