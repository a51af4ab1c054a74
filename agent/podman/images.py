"""Images of podman: fetched from where a `uri` says, and told in the words of rkt's clients."""

import asyncio
import base64
import io
import json
import os
import subprocess
import tarfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, BinaryIO

from agent.manifests import builtin_config, image_id, image_manifest
from agent.podman.rest import PULL_SECONDS, Rest, last_error, quoted
from agent.uris import ARCHIVE, BUILTIN, BUILTINS, Source, source
from domain.errors import Failed, Forbidden, NotFound, Unavailable
from domain.pod import Format, Image

BUSYBOX = Path("/bin/busybox")
HOME = "windlass.local"
"""Where images lie that are built in."""

ARCHIVE_PIECE = 2**20

LOOPBACK = ("127.0.0.1:", "localhost:")
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


class PodmanImages:
    def __init__(self, rest: Rest, storage: Path, archives: Path) -> None:
        self._rest, self._storage, self._archives = rest, storage, archives
        self._known: dict[str, Image] = {}
        """By podman's id."""
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """By reference, for those who ask for the same at once."""

    async def fetch(self, uri: str, credentials: str) -> tuple[Image, str]:
        """The image, and podman's name for it."""
        meant = source(uri)
        if meant.kind == ARCHIVE:
            reference = await self._load(meant)
        else:
            reference = meant.rest
            if meant.kind == BUILTIN:
                reference = f"{HOME}/{meant.rest}:latest"
            async with self._turns[reference]:
                if await self._has(reference):
                    pass
                elif meant.kind == BUILTIN:
                    await self._build(meant.rest, reference)
                else:
                    await self._pull(reference, credentials)
        return await self._image(reference), reference

    async def list(self) -> Sequence[Image]:
        found = await self._rest.get("/images/json")
        return [await self._image(each["Id"]) for each in found or () if each.get("RepoTags")]

    async def remove(self, id: str) -> None:
        await self.list()  # we may have been started since, and know of none
        for theirs, image in list(self._known.items()):
            if image.id == id:
                with suppress(NotFound):
                    told = await self._rest.get(f"/images/{theirs}/json")
                    for name in told.get("RepoTags") or [theirs]:  # it goes with its last name
                        await self._rest.ask("DELETE", f"/images/{quoted(name)}")
                del self._known[theirs]

    async def _has(self, reference: str) -> bool:
        try:
            await self._rest.get(f"/images/{quoted(reference)}/json")
        except NotFound:
            return False
        return True

    async def _pull(self, reference: str, credentials: str) -> None:
        asked = {"reference": reference, "policy": "missing"}
        if reference.startswith(LOOPBACK):  # a registry on this machine, which has no certificate
            asked["tlsVerify"] = "false"
        known = {"X-Registry-Auth": credentials} if credentials else {}
        pieces = self._rest.pieces(
            "POST", "/images/pull", asked=asked, seconds=PULL_SECONDS, headers=known
        )
        async with aclosing(pieces):
            error = await last_error(pieces)
        if error:
            raise Failed(f"{reference} cannot be pulled: {error}", reason="IMAGE_PULL_FAILED")

    async def _load(self, meant: Source) -> str:
        """An archive on this machine, of those that were put where orders may name them."""
        path = Path(os.path.realpath(meant.rest))  # noqa: ASYNC240 (a look at local names)
        if not path.is_relative_to(os.path.realpath(self._archives)):  # noqa: ASYNC240
            raise Forbidden(
                f"{meant.rest} does not lie in {self._archives}",
                reason="ARCHIVE_ELSEWHERE",
                do="put it there, on every node that shall run it",
            )
        try:
            file = await asyncio.to_thread(path.open, "rb")
        except OSError as error:
            raise Unavailable(f"{path} cannot be read: {error.strerror}") from error
        with file:
            answer = await self._rest.ask(
                "POST", "/images/load", content=_read(file), seconds=PULL_SECONDS
            )
        return str(answer.json()["Names"][0])

    async def _build(self, name: str, reference: str) -> None:
        """A program that is built in, on a tree of busybox and nothing else."""
        if not os.access(BUSYBOX, os.X_OK):
            raise Unavailable(
                f"{BUSYBOX} is missing, which programs that are built in are made of",
                do="apt-get install -y busybox-static",
            )
        command = json.dumps(["/bin/sh", "-c", BUILTINS[name].script])
        asked = {"reference": reference, "changes": f"CMD {command}"}
        content = await asyncio.to_thread(_tree)
        await self._rest.ask("POST", "/images/import", asked=asked, content=content)

    async def _image(self, reference: str) -> Image:
        told = await self._rest.get(f"/images/{quoted(reference)}/json")
        theirs = str(told["Id"])
        if theirs not in self._known:
            self._known[theirs] = _told(told, self._config(theirs, told))
        return self._known[theirs]

    def _config(self, theirs: str, told: dict[str, Any]) -> bytes:
        """The configuration as it was pushed, which podman keeps beside the image. One that is
        built in has the same on every node, whatever it was built of there."""
        for name in told.get("RepoTags") or ():
            program = str(name).removeprefix(f"{HOME}/").removesuffix(":latest")
            if str(name).startswith(f"{HOME}/") and program in BUILTINS:
                return builtin_config(BUILTINS[program])
        name = "=" + base64.b64encode(f"sha256:{theirs}".encode()).decode()
        try:
            return (self._storage / "overlay-images" / theirs / name).read_bytes()
        except OSError:
            return theirs.encode()  # kept elsewhere: then it is at least the same here


async def _read(file: BinaryIO) -> AsyncIterator[bytes]:
    """A file in pieces: archives of images are as large as disks allow."""
    while piece := await asyncio.to_thread(file.read, ARCHIVE_PIECE):
        yield piece


def _told(told: dict[str, Any], config: bytes) -> Image:
    name, _, version = str((told.get("RepoTags") or ["<none>:latest"])[0]).rpartition(":")
    labels = dict(told.get("Labels") or {})
    labels.setdefault("version", version)
    pairs = (*labels.items(), ("os", told["Os"]), ("arch", told["Architecture"]))
    notes = (*(told.get("Annotations") or {}).items(), ("oci.digest", f"sha256:{told['Id']}"))
    docker = told.get("ManifestType") == DOCKER_MANIFEST
    return Image(
        id=image_id(config),
        name=name,
        version=labels["version"],
        format=Format.DOCKER if docker else Format.OCI,
        format_version="2.2" if docker else "1.0.2",
        imported=int(time.time()),
        size=int(told.get("Size") or 0),
        manifest=image_manifest(name, pairs, told.get("Config") or {}, notes),
        labels=tuple(dict(reversed(pairs)).items()),
        annotations=notes,
    )


def _tree() -> bytes:
    """Busybox under all of its names."""
    asked = [str(BUSYBOX), "--list"]
    applets = subprocess.run(asked, capture_output=True, check=True, text=True).stdout.split()  # noqa: S603
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for folder in ("bin", "tmp", "etc", "root"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        tar.add(BUSYBOX, "bin/busybox")
        for applet in applets:
            if applet != "busybox":
                entry = tarfile.TarInfo(f"bin/{applet}")
                entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(entry)
    return packed.getvalue()
