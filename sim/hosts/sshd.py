"""The SSH server of a simulated host: who may log in, what a command line runs, and SFTP."""

import asyncio
from collections.abc import Mapping

import asyncssh

from sim.faults import Fault, How
from sim.hosts.disk import ROOT
from sim.hosts.host import Host
from sim.hosts.sftp import DiskSftp
from sim.hosts.shell import Call, Command, first_words

_LOGIN_SECONDS = 60


class Sshd:
    """Listens on the host's own address while the host is up."""

    def __init__(self, host: Host, table: Mapping[str, Command], port: int) -> None:
        self._host = host
        self._table = table
        self._port = port
        self._acceptor: asyncssh.SSHAcceptor | None = None
        self._wanted = False

    async def open(self) -> None:
        self._wanted = True
        await asyncio.shield(self._listen())

    async def _listen(self) -> None:
        """Not to be cancelled: a socket that listens already would be nobody's to close."""
        key = asyncssh.import_private_key(self._host.state.host_key)
        acceptor = await asyncssh.listen(
            self._host.address,
            self._port,
            server_factory=lambda: _Login(self._host),
            server_host_keys=[key],
            process_factory=self._serve,
            sftp_factory=self._files,
            encoding=None,
            line_editor=False,
            login_timeout=_LOGIN_SECONDS,
            server_version="OpenSSH_9.6p1",
        )
        if self._wanted:
            self._acceptor = acceptor
        else:
            acceptor.close()

    def close(self) -> None:
        """Stop listening. Connections are the host's to drop."""
        self._wanted = False
        if self._acceptor is not None:
            self._acceptor.close()
            self._acceptor = None

    def _files(self, channel: "asyncssh.SSHServerChannel[bytes]") -> DiskSftp:
        user = str(channel.get_connection().get_extra_info("username"))
        return DiskSftp(channel, self._host.disk, _home(user))

    async def _serve(self, process: "asyncssh.SSHServerProcess[bytes]") -> None:
        """Run one command line, as a task that ends with the host."""
        running = self._host.spawn(self._run(process))
        await asyncio.wait([running])
        if not running.cancelled():
            running.result()

    async def _run(self, process: "asyncssh.SSHServerProcess[bytes]") -> None:
        line = process.command
        if line is None:
            process.stderr.write(b"There is no terminal here: give a command.\n")
            process.exit(1)
            return
        session = _Session(process)
        fault = self._host.shared.faults.meet(f"ssh exec {self._host.id} {first_words(line)}")
        try:
            status = await self._carry_out(line, session, fault)
        except BrokenPipeError:
            return
        if fault is not None and fault.how is How.HALF:
            session.drop()
            return
        process.exit(status)
        await process.wait_closed()

    async def _carry_out(self, line: str, session: "_Session", fault: Fault | None) -> int:
        match fault:
            case Fault(how=How.REFUSE | How.FAIL):
                await session.err.write(fault.message.encode() + b"\n")
                return fault.status if fault.status < 256 else 1
            case Fault(how=How.SLOW):
                await self._host.shared.clock.sleep(fault.seconds)
            case Fault(how=How.HANG):
                await asyncio.Event().wait()
            case Fault(how=How.DROP):
                session.limit = fault.line
                if not fault.line:
                    session.drop()
                    raise BrokenPipeError
            case Fault(how=How.REBOOT):
                self._host.shared.reboot(self._host.id)
        self._host.see_words([line])
        user = session.user
        home = _home(user)
        call = Call(
            host=self._host,
            table=self._table,
            user=user,
            words=["sh"],
            out=session.out,
            err=session.err,
            stdin=session.process.stdin.read,
            variables={"PWD": home, "HOME": home, "USER": user, "LOGNAME": user},
        )
        return await call.script(line)


class _Login(asyncssh.SSHServer):
    """One connection, until its user is known. Keys are read from the host's own files."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._fault: Fault | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._host.connections.add(conn)
        self._fault = self._host.shared.faults.meet(f"ssh connect {self._host.id}")
        if self._fault is not None and self._fault.how in (How.REFUSE, How.DROP, How.FAIL):
            conn.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._host.connections.discard(self._connection)

    async def begin_auth(self, username: str) -> bool:
        match self._fault:
            case Fault(how=How.SLOW):
                await self._host.shared.clock.sleep(self._fault.seconds)
            case Fault(how=How.HANG):
                await asyncio.Event().wait()
        try:
            text = self._host.disk.read(f"{_home(username)}/.ssh/authorized_keys").decode()
        except OSError:
            text = ""
        self._connection.set_authorized_keys(asyncssh.import_authorized_keys(text))
        return True


class _Session:
    """A command's channel, and after how many lines of output it is cut."""

    def __init__(self, process: "asyncssh.SSHServerProcess[bytes]") -> None:
        self.process = process
        self.user = str(process.get_extra_info("username"))
        self.limit: int | None = None
        self.out = _Channel(self, process.stdout)
        self.err = _Channel(self, process.stderr)

    def count(self, lines: int) -> None:
        if self.limit is not None:
            self.limit -= lines
            if self.limit <= 0:
                self.drop()

    def drop(self) -> None:
        self.process.get_extra_info("connection").abort()


class _Channel:
    """One of a command's streams, all the way to the client."""

    def __init__(self, session: _Session, writer: "asyncssh.SSHWriter[bytes]") -> None:
        self._session = session
        self._writer = writer

    async def write(self, data: bytes) -> None:
        if self._session.process.is_closing():
            raise BrokenPipeError
        self._writer.write(data)
        self._session.count(data.count(b"\n"))
        try:
            await self._writer.drain()
        except (asyncssh.Error, ConnectionError) as error:
            raise BrokenPipeError from error


def _home(user: str) -> str:
    return "/root" if user == ROOT else f"/home/{user}"
