"""What is served over HTTP besides probes and metrics, put together: the routes, and what is around
all of them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from starlette.routing import Route
from starlette.types import ASGIApp

from api.browsers import Browsers, Policy
from api.build import Build
from api.door import Admit, Door, Service
from api.edge import gateway
from api.kaas.routes import ROUTES
from api.koor import pages
from api.ops.codec import decoding
from api.rest import resources


class Chosen(Protocol):
    """The settings that are read here."""

    @property
    def rest(self) -> bool: ...
    @property
    def cors_origins(self) -> tuple[str, ...]: ...
    @property
    def hosts(self) -> tuple[str, ...]: ...


class Served(NamedTuple):
    """The services, and those of them that have paths of their own."""

    all: Sequence[Service]
    clusters: Service
    edge: Sequence[Service]


class HttpApi(NamedTuple):
    routes: list[Route]
    around: Callable[[ASGIApp], ASGIApp]


def http_api(
    door: Door,
    admit: Admit,
    served: Served,
    chosen: Chosen,
    temporal_pages: Sequence[str],
    built: Build,
    *,
    is_open: bool,
) -> HttpApi:
    """`temporal_pages`: the origins of Temporal's web UI. `is_open`: nobody signs in."""
    routes = pages.routes(built)
    if chosen.rest:
        routes += resources(door, served.clusters, ROUTES, admit)
        routes += gateway.routes(door, list(served.edge), admit)
    names = frozenset(name.lower() for name in chosen.hosts)
    policy = Policy(frozenset(chosen.cors_origins), is_open, names)
    browsers = Browsers(door, served.all, admit, policy, [decoding(tuple(temporal_pages), policy)])
    return HttpApi(routes, browsers.around)
