"""The texts in an app that somebody else reads later: keys, configs, manifests. They are looked at
now, so that whoever wrote them hears of it."""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import yaml
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_public_key, load_ssh_public_key

from domain.app import Service
from domain.yaml_limits import LOADER, TooComplexError, check

LONGEST_CONFIG = 64 * 1024
LONGEST_KEY = 16 * 1024

SSH_KEYS = frozenset(
    {"ssh-rsa", "ssh-ed25519"} | {f"ecdsa-sha2-nistp{bits}" for bits in (256, 384, 521)}
)


def is_public_key(text: str) -> bool:
    """Whether a text is a PEM public key, PKIX or PKCS1, or a line of authorized_keys."""
    if len(text) > LONGEST_KEY:
        return False
    with suppress(ValueError, UnsupportedAlgorithm):
        if text.lstrip().startswith("-----BEGIN "):
            load_pem_public_key(text.encode())
        else:
            load_ssh_public_key(_behind_options(text).encode())
        return True
    return False


def is_config(text: str) -> bool:
    """Whether a text is a JSON object or a YAML mapping. Takes its time; not for the loop.
    One that holds more than a text may is none."""
    with suppress(ValueError, RecursionError):
        return isinstance(json.loads(text), dict)
    with suppress(yaml.YAMLError, ValueError, RecursionError, TooComplexError):
        # Composed and not loaded: a merge of merges would grow without end.
        check(text)
        return isinstance(yaml.compose(text, Loader=LOADER), yaml.MappingNode)
    return False


def services(text: str) -> tuple[Service, ...]:
    """The services in a manifest, in its order. One that cannot be read has none. Takes its time;
    not for the loop. TooComplexError if it holds more than it may."""
    with suppress(yaml.YAMLError, ValueError, RecursionError):
        # Composed and not loaded: a merge of merges would grow without end.
        check(text)
        documents = list(yaml.compose_all(text, Loader=LOADER))
        return tuple(
            Service(name=_text(_below(each, "metadata", "name")), ports=tuple(_ports(each)))
            for each in documents
            if _text(_below(each, "kind")) == "Service"
        )
    return ()


def _ports(service: Any) -> Iterator[tuple[str, int]]:
    listed = _below(service, "spec", "ports")
    for port in listed.value if isinstance(listed, yaml.SequenceNode) else ():
        target = _text(_below(port, "targetPort")) or _text(_below(port, "port"))
        if target.isdecimal():
            yield _text(_below(port, "protocol")) or "TCP", int(target)


def _below(node: Any, *path: str) -> Any:
    """What stands in a mapping under a path of names; None if nothing does."""
    for name in path:
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        node = next((value for key, value in pairs if _text(key) == name), None)
    return node


def _text(node: Any) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def as_yaml(documents: Iterable[dict[str, Any]]) -> str:
    """Documents as one text. Takes its time; not for the loop."""
    return "---\n".join(
        yaml.dump(document, Dumper=_Plain, sort_keys=False) for document in documents
    )


class _Plain(yaml.SafeDumper):
    """Writes what stands in two places twice: readers of manifests like no anchors."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


def _behind_options(line: str) -> str:
    """A line of authorized_keys from its key on: options may stand before it."""
    words = line.strip().split(" ")
    kinds = [place for place, word in enumerate(words) if word in SSH_KEYS]
    return " ".join(words[kinds[0] :] if kinds else words)
