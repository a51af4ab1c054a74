"""What images and pods are made of, told in the form that clients of rkt know."""

import hashlib
import json
import time
from typing import Any

from agent.runtime import APP, Spec
from agent.uris import Builtin
from domain.pod import Format, Image, Pairs

APPC_VERSION = "0.8.11"


def image_id(config: bytes) -> str:
    """Made from the image's configuration alone, so pushing it again changes nothing."""
    return f"sha512-{hashlib.sha512(config).hexdigest()[:64]}"


def builtin_image(program: Builtin) -> Image:
    command = ["/bin/sh", "-c", program.script]
    config = {"architecture": "any", "os": "linux", "config": {"Cmd": command}}
    raw = json.dumps(config, sort_keys=True).encode()
    name = f"windlass.local/{program.name}"
    labels = (("version", "latest"), ("os", "linux"))
    return Image(
        id=image_id(raw),
        name=name,
        format=Format.OCI,
        format_version="1.0.2",
        imported=int(time.time()),
        size=len(program.script),
        manifest=image_manifest(name, labels, config["config"], ()),
        labels=labels,
    )


def image_manifest(name: str, labels: Pairs, config: Any, annotations: Pairs) -> str:
    """From the OCI configuration: what it runs, as whom, with which environment."""
    command = [*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())]
    environment = [pair.partition("=") for pair in config.get("Env") or ()]
    told = {
        "acKind": "ImageManifest",
        "acVersion": APPC_VERSION,
        "name": name,
        "labels": [{"name": label, "value": value} for label, value in labels],
        "app": {
            "exec": command,
            "user": config.get("User") or "0",
            "group": "0",
            "workingDirectory": config.get("WorkingDir") or "/",
            "environment": [{"name": name, "value": value} for name, _, value in environment],
        },
        "annotations": [{"name": note, "value": value} for note, value in annotations],
    }
    return json.dumps(told)


def pod_manifest(spec: Spec, image: Image, annotations: Pairs) -> str:
    # Whoever may look at pods reads this, so it has the names of what was ordered and no values.
    app: dict[str, Any] = {
        "environment": [{"name": name, "value": ""} for name, _ in spec.environment],
    }
    if spec.command:
        app["exec"] = list(spec.command)
    told = {
        "acKind": "PodManifest",
        "acVersion": APPC_VERSION,
        "apps": [
            {"name": APP, "image": {"id": image.id, "name": image.name}, "app": app},
        ],
        "annotations": [{"name": note, "value": value} for note, value in annotations],
        "ports": [{"name": f"{port.destination}", "hostPort": port.source} for port in spec.ports],
    }
    return json.dumps(told)
