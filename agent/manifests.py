"""What images and pods are made of, told in the form that clients of rkt know."""

import hashlib
import json
import time
from typing import Any

from agent import appc
from agent.runtime import APP, Spec
from agent.uris import Builtin
from domain.pod import Format, Image, Pairs

APPC_VERSION = "0.8.11"


def image_id(config: bytes) -> str:
    """Made from the image's configuration alone, so pushing it again changes nothing."""
    return f"sha512-{hashlib.sha512(config).hexdigest()[:64]}"


def builtin_config(program: Builtin) -> bytes:
    """What the id of a program's image is made from: the program, and nothing of the node."""
    config = {"architecture": "any", "os": "linux", "config": {"Cmd": _command(program)}}
    return json.dumps(config, sort_keys=True).encode()


def builtin_image(program: Builtin) -> Image:
    name = f"windlass.local/{program.name}"
    labels = (("version", "latest"), ("os", "linux"))
    return Image(
        id=image_id(builtin_config(program)),
        name=name,
        format=Format.OCI,
        format_version="1.0.2",
        imported=int(time.time()),
        size=len(program.script),
        manifest=image_manifest(name, labels, {"Cmd": _command(program)}, ()),
        labels=labels,
    )


def image_manifest(name: str, labels: Pairs, config: Any, annotations: Pairs) -> str:
    """From the OCI configuration: what it runs, as whom, with which environment."""
    command = [*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())]
    environment = [pair.partition("=") for pair in config.get("Env") or ()]
    told = {
        "acKind": "ImageManifest",
        "acVersion": APPC_VERSION,
        "name": appc.identifier(name),
        "labels": appc.labels(labels),
        "app": appc.app(
            command,
            ((variable, value) for variable, _, value in environment),
            user=str(config.get("User") or ""),
            folder=str(config.get("WorkingDir") or "/"),
        ),
        "annotations": appc.annotations(annotations),
    }
    return json.dumps(told)


def pod_manifest(spec: Spec, image: Image, annotations: Pairs) -> str:
    # Whoever may look at pods reads this, so it has the names of what was ordered and no values.
    names = ((name, "") for name, _ in spec.environment)
    notes = appc.annotations(annotations)
    made_of = {"id": appc.image_hash(image.id), "name": appc.identifier(image.name or spec.uri)}
    told = {
        "acKind": "PodManifest",
        "acVersion": APPC_VERSION,
        "apps": [
            {
                "name": APP,
                "image": made_of,
                "app": appc.app(spec.command, names),
                "annotations": notes,
            },
        ],
        "volumes": [],
        "isolators": [],
        "annotations": notes,
        "ports": [{"name": f"{port.destination}", "hostPort": port.source} for port in spec.ports],
    }
    return json.dumps(told)


def _command(program: Builtin) -> list[str]:
    return ["/bin/sh", "-c", program.script]
