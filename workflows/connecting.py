"""The one connection of a worker to Temporal, which may still be starting."""

import asyncio

import structlog
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig

from domain.errors import Invalid, Unavailable

CONNECT_SECONDS = 60.0
"""How long Temporal may take to come up before we give up."""

ATTEMPT_SECONDS = 10.0
"""How long one attempt at that may take. A server that is just starting can take a connection and
never answer on it; the library itself would wait for ever."""

PAUSE_SECONDS = 1.0
"""Between two attempts."""

log = structlog.get_logger()


async def connected(address: str, namespace: str, metrics: str, converter: DataConverter) -> Client:
    """The one connection of this process. Temporal may still be starting, so we try for a while; a
    namespace that it does not have is an RPCError at once."""
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
