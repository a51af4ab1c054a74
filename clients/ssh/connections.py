"""Connections to hosts: whom we trust, what we run, where we put files.

A host's key is pinned the first time it is seen. Nothing is ever read of the user's own SSH
configuration, known hosts or agent."""

import asyncio
import ipaddress
import secrets
import shlex
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import asyncssh

from clients.ssh.failures import DISK_FULL, MAKE_ROOM, is_full
from domain.errors import Failed, NotFound, Unavailable
from domain.frozen import Frozen
from domain.machine import Machine
from domain.naming import is_dns_label
from domain.ports import Vault, host_key, ssh_key

LOGIN_REFUSED = "LOGIN_REFUSED"
HOST_KEY_CHANGED = "HOST_KEY_CHANGED"

_KEEPALIVE_SECONDS = 15
_KEEPALIVES = 3
_IDLE_SECONDS = 10.0
_OUTPUT_BYTES = 256 * 1024
_PIECE_BYTES = 256 * 1024
_PIECE_SECONDS = 60
_SFTP_LOST = (asyncssh.SFTPNoConnection, asyncssh.SFTPConnectionLost)
"""Refusals by their type, and none: nobody was there to refuse."""


class Answer(Frozen):
    """What a command wrote, as far as we keep it, and its exit code."""

    command: str
    status: int
    out: str
    err: str

    def succeeded(self, machine: Machine) -> str:
        """What it wrote. A command that failed is Failed."""
        if self.status:
            said = self.err.strip()[-500:]
            raise _refused(f"{named(machine)} answered {self.status} to {self.command}: {said}")
        return self.out


@dataclass
class _Held:
    connection: asyncssh.SSHClientConnection
    users: int = 0
    idle: asyncio.TimerHandle | None = None


class Connections:
    """One connection per host and slot, shared by who needs it at the same time and kept for a
    moment. Never across slots: a step that comes late, for a machine that fills another slot by
    now, must not get in with that one's key."""

    def __init__(self, vault: Vault, *, port: int, user: str, connect_seconds: float) -> None:
        self._vault = vault
        self._port = port
        self._user = user
        self._connect_seconds = connect_seconds
        self._held: dict[str, _Held] = {}
        self._connecting: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @property
    def user(self) -> str:
        return self._user

    async def run(self, machine: Machine, command: str, *, seconds: float = 60) -> Answer:
        """Run a command line and wait for its end. Whatever is not an exit code, be it a timeout,
        a lost connection or a channel that closed without a word, is Unavailable, and the command
        may have done its work all the same."""
        async with self._use(machine) as connection:
            try:
                async with asyncio.timeout(seconds):
                    answer = await _run(connection, command)
            except (asyncssh.Error, OSError, TimeoutError) as error:
                raise self._lost(machine, connection, command, error) from error
            if answer is None:
                raise self._lost(machine, connection, command, None)
            return answer

    async def put(self, machine: Machine, path: str, text: str) -> None:
        """Write a file that only we and root can read, whole or not at all. If the connection is
        lost on the way, part of it may stay under a name that begins with the file's."""
        async with self._use(machine) as connection:
            try:
                async with asyncio.timeout(60), connection.start_sftp_client() as sftp:
                    fresh = f"{path}.{secrets.token_hex(4)}"
                    attributes = asyncssh.SFTPAttrs(permissions=0o600)
                    async with sftp.open(fresh, "wb", attributes) as file:
                        await file.write(text.encode())
                        with suppress(asyncssh.SFTPOpUnsupported):
                            await file.fsync()
                    await sftp.posix_rename(fresh, path)
            except _SFTP_LOST as error:
                raise self._lost(machine, connection, f"a write of {path}", error) from error
            except asyncssh.SFTPNoSuchFile as error:  # somebody clears away what we put there
                raise Unavailable(f"{named(machine)} had no place for {path}: {error}") from error
            except asyncssh.SFTPError as error:
                raise _refused(f"{named(machine)} did not take {path}: {error}") from error
            except (asyncssh.Error, OSError, TimeoutError) as error:
                raise self._lost(machine, connection, f"a write of {path}", error) from error

    async def fetch(self, machine: Machine, path: str) -> AsyncGenerator[bytes, None]:
        """A file's content, piece by piece, so that it need not fit into memory. What keeps it
        from coming whole is an error, and what came before is worth nothing then."""
        async with self._use(machine) as connection:
            try:
                async with asyncio.timeout(_PIECE_SECONDS):
                    sftp = await connection.start_sftp_client()
                    file = await sftp.open(path, "rb")
                async with sftp, file:
                    while piece := await _piece(file):
                        yield piece
            except _SFTP_LOST as error:
                raise self._lost(machine, connection, f"a read of {path}", error) from error
            except asyncssh.SFTPNoSuchFile as error:
                raise Unavailable(f"{named(machine)} has no {path}: {error}") from error
            except asyncssh.SFTPError as error:
                raise Failed(f"{named(machine)} did not give {path}: {error}") from error
            except (asyncssh.Error, OSError, TimeoutError) as error:
                raise self._lost(machine, connection, f"a read of {path}", error) from error

    async def close(self) -> None:
        """Close every connection. The next call opens one again."""
        held = list(self._held.values())
        self._held.clear()
        for each in held:
            if each.idle is not None:
                each.idle.cancel()
            each.connection.close()
        for each in held:
            with suppress(TimeoutError):
                await asyncio.wait_for(each.connection.wait_closed(), 1)

    @asynccontextmanager
    async def _use(self, machine: Machine) -> AsyncIterator[asyncssh.SSHClientConnection]:
        where = f"{host_key(machine)} {machine.address}"
        async with self._connecting[where]:
            held = self._held.get(where)
            if held is None or held.connection.is_closed():
                held = self._held[where] = _Held(await self._connect(machine))
        if held.idle is not None:
            held.idle.cancel()
        held.users += 1
        try:
            yield held.connection
        finally:
            held.users -= 1
            if not held.users:
                loop = asyncio.get_running_loop()
                held.idle = loop.call_later(_IDLE_SECONDS, self._retire, where, held)

    def _retire(self, where: str, held: _Held) -> None:
        held.connection.close()
        if self._held.get(where) is held:
            del self._held[where]
            self._connecting.pop(where, None)

    async def _connect(self, machine: Machine) -> asyncssh.SSHClientConnection:
        address = _address(machine)
        pinned = await self._pinned(machine, address)
        key = await self._vault.open(ssh_key(machine.slot.cluster_uid))
        whom = f"{named(machine)} on port {self._port}"
        try:
            return await asyncssh.connect(
                address,
                self._port,
                username=self._user,
                client_keys=[asyncssh.import_private_key(key)],
                known_hosts=([pinned], [], []),
                config=[],
                agent_path=None,
                connect_timeout=self._connect_seconds,
                login_timeout=self._connect_seconds,
                keepalive_interval=_KEEPALIVE_SECONDS,
                keepalive_count_max=_KEEPALIVES,
            )
        except asyncssh.KeyImportError as error:
            raise Failed(f"our own key for {whom} cannot be read: {error}") from error
        except asyncssh.HostKeyNotVerifiable as error:
            raise Failed(
                f"{whom} shows another host key than at first contact",
                subject=machine.slot.name,
                reason=HOST_KEY_CHANGED,
                do="find out who answers there; if the machine was reinstalled, release it",
            ) from error
        except asyncssh.PermissionDenied as error:
            raise Unavailable(
                f"{whom} refused {self._user}'s key: {error}", reason=LOGIN_REFUSED
            ) from error
        except (asyncssh.Error, OSError, TimeoutError) as error:
            raise Unavailable(f"{whom} did not take a connection: {_words(error)}") from error

    async def _pinned(self, machine: Machine, address: str) -> asyncssh.SSHKey:
        """The key the host showed at first contact, which this may be."""
        reference = host_key(machine)
        try:
            pinned = await self._vault.open(reference)
        except NotFound:
            shown = await self._shown(machine, address)
            pinned = await self._vault.keep_first(reference, shown.export_public_key())
        return asyncssh.import_public_key(pinned)

    async def _shown(self, machine: Machine, address: str) -> asyncssh.SSHKey:
        """The key the host shows, without logging in."""
        try:
            async with asyncio.timeout(self._connect_seconds):
                shown = await asyncssh.get_server_host_key(address, self._port, config=[])
        except (asyncssh.Error, OSError, TimeoutError) as error:
            raise Unavailable(
                f"{named(machine)} did not show a host key on port {self._port}: {_words(error)}"
            ) from error
        if shown is None:
            raise Failed(f"{named(machine)} has no host key on port {self._port}")
        return shown

    def _lost(
        self,
        machine: Machine,
        connection: asyncssh.SSHClientConnection,
        what: str,
        error: Exception | None,
    ) -> Unavailable:
        """A connection that let us down is not used again."""
        connection.abort()
        why = _words(error) if error else "closed without an exit code"
        return Unavailable(f"{named(machine)} did not say how {what} ended: {why}")


def named(machine: Machine) -> str:
    """How messages call a host."""
    return f"{machine.slot.name} ({machine.address or machine.system_id})"


def _refused(message: str) -> Failed:
    """What a host would not do, with what to do about it where that is plain."""
    if is_full(message):
        return Failed(message, reason=DISK_FULL, do=MAKE_ROOM)
    return Failed(message)


def line(*words: str) -> str:
    """A command line of exactly these words."""
    return shlex.join(words)


def root(*words: str) -> str:
    """The same, as root, who is not asked for a password."""
    return shlex.join(("sudo", "-n", *words))


async def _run(connection: asyncssh.SSHClientConnection, command: str) -> Answer | None:
    """What came of a command. None: its channel closed without an exit code."""
    process = await connection.create_process(command, encoding=None, stdin=asyncssh.DEVNULL)
    try:
        out, err = await asyncio.gather(_bounded(process.stdout), _bounded(process.stderr))
        await process.wait_closed()
    finally:
        process.close()
    status = process.exit_status
    if status is None or status < 0:  # a signal's is -1
        return None
    return Answer(command=command, status=status, out=out, err=err)


async def _piece(file: asyncssh.SFTPClientFile) -> bytes:
    """What comes next in a file; nothing at its end."""
    async with asyncio.timeout(_PIECE_SECONDS):
        return await file.read(_PIECE_BYTES)


async def _bounded(stream: "asyncssh.SSHReader[bytes]") -> str:
    """What a stream says, all of it read, and only so much of it kept."""
    kept = b""
    while data := await stream.read(65536):
        kept += data[: _OUTPUT_BYTES - len(kept)]
    return kept.decode(errors="replace")


def _address(machine: Machine) -> str:
    """The host's address: an address and never a name or an option. The slot's name, which gets
    into command lines, is looked at on the same occasion."""
    if not is_dns_label(machine.slot.name):
        raise Failed(f"{machine.slot.name!r} cannot be a node's name")
    if not machine.address:
        raise Unavailable(f"{machine.slot.name} has no address yet", subject=machine.slot.name)
    try:
        return str(ipaddress.ip_address(machine.address))
    except ValueError as error:
        raise Failed(f"{machine.slot.name} is not at an address: {error}") from error


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
