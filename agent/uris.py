"""Where images come from: what a `uri` may be."""

import re

from domain.errors import Invalid
from domain.frozen import Frozen
from domain.registries import USUAL, is_host

DOCKER, ARCHIVE, BUILTIN = "docker", "oci-archive", "builtin"


_HOST = (
    r"([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*"
    r"|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?"
)
_PART = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
REFERENCE = re.compile(
    rf"({_HOST}/)?{_PART}(/{_PART})*(:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?"
    r"(@[A-Za-z][A-Za-z0-9+._-]*:[0-9a-fA-F]{32,128})?"
)
LONGEST = 512


class Builtin(Frozen):
    """A program that every node has, without any registry. It is written for a plain shell, reads
    its parameters from the environment, and nothing of an order ever becomes part of its text."""

    name: str
    script: str


BUILTINS = {
    each.name: each
    for each in (
        Builtin(name="idle", script="while :; do sleep 3600 & wait $!; done"),
        Builtin(
            name="ticker",
            script='n=0; while :; do n=$((n+1)); echo "tick $n ${GREETING:-}"; '
            'sleep "${SECONDS_BETWEEN:-1}"; done',
        ),
        Builtin(
            name="exit",
            script='echo "ending with ${CODE:-0}"; sleep "${AFTER:-0}"; exit "${CODE:-0}"',
        ),
        Builtin(name="env", script="env | sort; while :; do sleep 3600 & wait $!; done"),
        Builtin(name="eater", script="x=0123456789abcdef; while :; do x=$x$x; sleep 0.05; done"),
        Builtin(
            name="web",
            script='cd "$(mktemp -d)" && echo "${GREETING:-hello}" > index.html; '
            'if [ -x /bin/httpd ]; then exec /bin/httpd -f -p "${PORT:-80}"; fi; '
            'exec python3 -I -m http.server "${PORT:-80}"',
        ),
    )
}


class Source(Frozen):
    """An image by where it comes from."""

    kind: str
    rest: str
    """For docker a reference, for an archive a path, for a builtin its name."""


def source(uri: str) -> Source:
    """Reads `docker://REFERENCE`, `oci-archive:PATH`, `file:///PATH` and `builtin:NAME`. A bare
    reference is one of docker's, as the first schedulers sent them."""
    if uri.startswith("docker://"):
        return Source(kind=DOCKER, rest=_full(uri.removeprefix("docker://"), uri))
    for scheme in ("oci-archive:", "file://"):
        if uri.startswith(scheme):
            path = uri.removeprefix(scheme)
            if not path.startswith("/"):
                raise _refused(uri, "its path has to begin with /")
            return Source(kind=ARCHIVE, rest=path)
    if uri.startswith("builtin:"):
        name = uri.removeprefix("builtin:")
        if name not in BUILTINS:
            raise _refused(uri, f"there are {', '.join(sorted(BUILTINS))}")
        return Source(kind=BUILTIN, rest=name)
    if "://" in uri:
        raise _refused(uri, "of this scheme nothing is known")
    return Source(kind=DOCKER, rest=_full(uri, uri))


def _full(reference: str, uri: str) -> str:
    """The reference with its registry and its tag. What it has to look like is what registries
    take, so it can be a part of a path or of a query and mean nothing else there."""
    if len(reference) > LONGEST or not REFERENCE.fullmatch(reference):
        raise _refused(uri, "images are called NAME[:TAG][@DIGEST], in lower case")
    head, _, rest = reference.partition("/")
    if not rest:
        reference = f"{USUAL}/library/{reference}"
    elif not is_host(head):
        reference = f"{USUAL}/{reference}"
    last = reference.rpartition("/")[2]
    return reference if ":" in last or "@" in last else f"{reference}:latest"


def _refused(uri: str, why: str) -> Invalid:
    return Invalid(
        f"{uri!r} names no image: {why}",
        subject=uri,
        reason="IMAGE_URI_INVALID",
        do="docker://REFERENCE, oci-archive:/PATH, file:///PATH or builtin:NAME",
    )
