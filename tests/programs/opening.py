"""Opens sockets as systemd does, and becomes the program that they are passed to:

    python tests/programs/opening.py ADDRESS ... -- WORDS OF PYTHON

An address is a path, or a host and a port; `-` is a socket that does not listen."""

import os
import socket
import sys

FIRST = 3


def opened(address: str) -> socket.socket:
    if address == "-":
        return socket.socket()
    if "/" in address:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(address)
        listening.listen()
        return listening
    host, _, port = address.rpartition(":")
    return socket.create_server((host, int(port)))


def main() -> None:
    at = sys.argv.index("--")
    sockets = [opened(address) for address in sys.argv[1:at]]
    for number, each in enumerate(sockets, FIRST):
        os.dup2(each.fileno(), number)
        os.set_inheritable(number, True)
    told = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(sockets))}
    words = [sys.executable, *sys.argv[at + 1 :]]
    os.execve(words[0], words, {**os.environ, **told})  # noqa: S606 (it is us)


if __name__ == "__main__":
    main()
