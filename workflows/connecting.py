"""The one connection of a worker to Temporal, which may still be starting."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import structlog
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig
from temporalio.service import TLSConfig

from domain.errors import Invalid, Unavailable

CONNECT_SECONDS = 60.0
"""How long Temporal may take to come up before we give up."""

ATTEMPT_SECONDS = 10.0
"""How long one attempt at that may take. A server that is just starting can take a connection and
never answer on it; the library itself would wait for ever."""

PAUSE_SECONDS = 1.0
"""Between two attempts."""

Answer = TypeVar("Answer")

log = structlog.get_logger()


class Trust(NamedTuple):
    """How a Temporal server is known, and what it knows us by."""

    tls: bool = False
    """Whether by TLS, which anything below but the API key's text implies."""
    authority: Path | None = None
    """Without one the system's authorities are trusted."""
    certificate: Path | None = None
    key: Path | None = None
    server_name: str = ""
    api_key: str = ""

    def options(self) -> dict[str, Any]:
        """What a client is made with. Invalid if a file cannot be read."""
        files = (self.authority, self.certificate, self.key)
        if not (self.tls or self.server_name or self.api_key or any(files)):
            return {"tls": False}
        authority, certificate, key = (_read(path) for path in files)
        tls = TLSConfig(
            server_root_ca_cert=authority,
            client_cert=certificate,
            client_private_key=key,
            domain=self.server_name or None,
        )
        return {"tls": tls, "api_key": self.api_key or None}


PLAIN = Trust()
"""A server that nobody else can reach, such as one on this machine."""


def _read(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise Invalid(
            f"{path} cannot be read, which the connection to Temporal needs: {error.strerror}",
            do="make it readable, or correct WINDLASS_TEMPORAL__CA_FILE, __CERT_FILE or __KEY_FILE",
        ) from error


async def connected(
    address: str, namespace: str, metrics: str, converter: DataConverter, trust: Trust = PLAIN
) -> Client:
    """The one connection of this process. Temporal may still be starting, so we try for a while; a
    namespace that it does not have is an RPCError at once."""
    options = trust.options()
    runtime = measured(metrics)
    deadline = asyncio.get_running_loop().time() + CONNECT_SECONDS
    while True:
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                client = await Client.connect(
                    address,
                    namespace=namespace,
                    data_converter=converter,
                    runtime=runtime,
                    **options,
                )
                look = DescribeNamespaceRequest(namespace=namespace)
                await client.workflow_service.describe_namespace(look, retry=True)
            return client
        except ValueError as error:
            raise Invalid(
                f"{address} is no address of a Temporal server: {error}",
                do="correct WINDLASS_TEMPORAL__ADDRESS",
            ) from error
        except (RuntimeError, TimeoutError) as error:
            why = str(error) or f"it takes connections and says nothing for {ATTEMPT_SECONDS:g} s"
            if asyncio.get_running_loop().time() > deadline:
                raise Unavailable(
                    f"Temporal at {address} did not answer for {CONNECT_SECONDS:g} s: {why}",
                    do="start it, or set WINDLASS_TEMPORAL__ADDRESS",
                ) from error
            log.warning("temporal does not answer yet", error=why)
            await asyncio.sleep(PAUSE_SECONDS)


async def unless_stopped(work: Coroutine[Any, Any, Answer], stop: asyncio.Event) -> Answer | None:
    """What comes of the work. None if we are told to stop first."""
    doing, told = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait([doing, told], return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    if doing.done():
        return doing.result()
    doing.cancel()
    await asyncio.wait([doing])
    return None


def tasks_measured(client: Client) -> Callable[[str, bool], None]:
    """Shows beside Temporal's metrics which of our own tasks run."""
    runtime = client.service_client.config.runtime or Runtime.default()
    gauge = runtime.metric_meter.create_gauge(
        "windlass_background_task_running",
        "1 while it runs, 0 while it waits to be begun again after it failed.",
    )
    return lambda task, running: gauge.set(int(running), {"task": task})


def measured(address: str) -> Runtime:
    """Temporal's side of this process, with its metrics. Unavailable if they cannot be served."""
    try:
        return Runtime(telemetry=TelemetryConfig(metrics=PrometheusConfig(bind_address=address)))
    except ValueError as error:
        raise Unavailable(
            f"metrics cannot be served on {address}: {error}",
            subject=address,
            reason="ADDRESS_IN_USE",
            do="set WINDLASS_WORKER__METRICS_PORT to a free port, or to 0 for any",
        ) from error
