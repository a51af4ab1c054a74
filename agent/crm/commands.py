"""Commands that somebody wants to be run in a container: offered by the controller, answered by the
report of what came of them."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import structlog

from agent.crm.care import ordered
from agent.crm.platform import LONGEST, RUN_SECONDS, Platform
from agent.crm.replica import Replica
from agent.crm.reports import Reports
from domain.errors import DomainError, Failed
from protos.gen.edge.exec_pb2 import ExecRequest

AT_ONCE = 20
SECONDS = RUN_SECONDS + 10.0
"""Nobody waits longer for the answer. What runs the command gives up before."""

log = structlog.get_logger()


class Commands:
    def __init__(
        self,
        platform: Platform,
        replica: Replica,
        reports: Reports,
        adopted: Callable[[], Awaitable[None]],
    ) -> None:
        """`adopted` waits until it is known what on the platform belongs to which instance."""
        self._adopted = adopted
        self._platform = platform
        self._replica = replica
        self._reports = reports
        self._running: set[asyncio.Task[None]] = set()

    def take(self, request: ExecRequest) -> None:
        """Run what is asked for, and say what came of it in a while."""
        task = asyncio.create_task(self._answer(request))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self) -> None:
        for task in (running := list(self._running)):
            task.cancel()
        if running:
            await asyncio.wait(running)

    async def _answer(self, request: ExecRequest) -> None:
        try:
            if len(self._running) > AT_ONCE:
                raise Failed("too many commands are being run")
            async with asyncio.timeout(SECONDS):
                request.answer = await self._run(request)
        except TimeoutError:
            request.err = f"the command was not done within {SECONDS:g} s"
        except DomainError as error:
            request.err = f"{error.message}: {error.do}" if error.do else error.message
        except Exception:
            log.exception("command went wrong")
            request.err = "internal error"
        self._reports.post(request)

    async def _run(self, request: ExecRequest) -> str:
        instance = self._replica.instance(request.app_inst_key)
        if instance is None:
            raise Failed(f"AppInst {request.app_inst_key.app_key.name} not found")
        order = ordered(self._replica, instance)
        await self._adopted()
        output = await self._platform.run(order, request.container_id, request.command)
        told = {
            "exit_code": output.exit_code,
            "stdout": output.stdout[:LONGEST],
            "stderr": output.stderr[:LONGEST],
            "cut": max(len(output.stdout), len(output.stderr)) > LONGEST,
        }
        return json.dumps(told)
