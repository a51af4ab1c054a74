"""Reads texts of strangers in a process of its own, which can be killed: `python -m
api.edge.text_worker`. A request on stdin is a length and JSON, and so is its answer on stdout. It
ends with its stdin, and with whoever started it."""

import ctypes
import json
import resource
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO

from api.edge import texts
from domain.yaml_limits import TooComplexError

LENGTH = struct.Struct(">I")
MEMORY_BYTES = 2**30
PR_SET_PDEATHSIG = 1

READS: dict[str, Callable[[str], Any]] = {
    "config": texts.is_config,
    "services": lambda text: [each.model_dump() for each in texts.services(text)],
}


def answer(request: dict[str, str]) -> dict[str, Any]:
    try:
        return {"found": READS[request["what"]](request["text"])}
    except TooComplexError as error:
        return {"refused": str(error)}
    except MemoryError:
        return {"refused": "reading it takes too much memory"}


def serve(reading: BinaryIO, writing: BinaryIO) -> None:
    while head := reading.read(LENGTH.size):
        (length,) = LENGTH.unpack(head)
        told = json.dumps(answer(json.loads(reading.read(length)))).encode()
        writing.write(LENGTH.pack(len(told)) + told)
        writing.flush()


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # our process ends us
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
