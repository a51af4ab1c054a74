"""The manifest that an app on Kubernetes gets if nobody gives it one.

Documents are plain dictionaries in the order in which they are applied: the services first, so that
their addresses are being found while images are still pulled."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from domain.access_ports import Port, Protocol, parse
from domain.app import App
from domain.naming import as_dns, as_kubernetes

Document: TypeAlias = dict[str, Any]

PULL_SECRET = "mexgitlabsecret"  # noqa: S105 (a name that resource managers know)

CARRIED: dict[Protocol, str] = {Protocol.TCP: "TCP", Protocol.HTTP: "TCP", Protocol.UDP: "UDP"}
"""What Kubernetes carries each protocol over."""


def documents(app: App) -> Iterator[Document]:
    """A service for each of TCP and UDP that has ports, then the deployment. A port that stands
    twice is served once: Kubernetes would refuse the second."""
    ports = tuple(dict.fromkeys(parse(app.access_ports)))
    for carrier in ("TCP", "UDP"):
        if carried := [port for port in ports if CARRIED[port.protocol] == carrier]:
            yield _service(app, carrier, carried)
    yield _deployment(app, ports)


def _service(app: App, carrier: str, ports: Iterable[Port]) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": as_dns(f"{app.name}-{carrier}"), "labels": _labels(app)},
        "spec": {
            "type": "LoadBalancer",
            "ports": [
                {
                    "name": f"{port.protocol}{port.number}",
                    "protocol": carrier,
                    "port": port.number,
                    "targetPort": port.number,
                }
                for port in ports
            ],
            "selector": _labels(app),
        },
    }


def _deployment(app: App, ports: Iterable[Port]) -> Document:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": as_dns(f"{app.name}-deployment")},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": _labels(app)},
            "template": {
                "metadata": {"labels": _labels(app)},
                "spec": {
                    "imagePullSecrets": [{"name": PULL_SECRET}],
                    "containers": [_container(app, ports)],
                },
            },
        },
    }


def _container(app: App, ports: Iterable[Port]) -> Document:
    container: Document = {
        "name": as_dns(app.name),
        "image": app.image_path,
        "imagePullPolicy": "Always",
        "ports": [
            {"containerPort": port.number, "protocol": CARRIED[port.protocol]} for port in ports
        ],
    }
    if app.command:
        container["command"] = app.command.split(" ")
    return container


def _labels(app: App) -> dict[str, str]:
    return {"run": as_kubernetes(app.name)}
