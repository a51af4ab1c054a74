"""The Kubernetes releases we install, and what they are installed on."""

import re
from collections.abc import Iterable
from functools import total_ordering
from pathlib import Path
from typing import Self

from pydantic import Field, field_validator, model_validator

from domain.errors import Invalid
from domain.frozen import Frozen

_NUMBER = r"(0|[1-9][0-9]{0,8})"
_VERSION = re.compile(rf"v?{_NUMBER}\.{_NUMBER}\.{_NUMBER}")


@total_ordering
class Version(Frozen):
    """A Kubernetes version. Orders as numbers do: 1.9.0 before 1.10.0."""

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `1.31.4` or `v1.31.4`."""
        found = _VERSION.fullmatch(text)
        if found is None:
            raise Invalid(f"{text!r} is not a version such as 1.31.4", subject=text)
        major, minor, patch = map(int, found.groups())
        return cls(major=major, minor=minor, patch=patch)

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    def __lt__(self, other: "Version") -> bool:
        return (self.major, self.minor, self.patch) < (other.major, other.minor, other.patch)


OLDEST = Version(major=1, minor=22, patch=0)
"""Since then kubeadm reads a configuration that we write."""

_SERIES = re.compile(r"[a-z][a-z0-9.-]{0,62}")


class Release(Frozen):
    """One entry of the catalogue: a Kubernetes version and an OS series it goes on."""

    version: str
    series: str


class Catalogue(Frozen):
    """What can be asked for, and what is given when nothing is. A version that goes on several
    series has an entry for each, the one for new clusters first."""

    releases: tuple[Release, ...]
    default: str
    networks: dict[str, Path] = Field(default_factory=dict)
    """The manifest of the pod network that goes with a version, where it is not the usual one."""

    @field_validator("releases")
    @classmethod
    def _fit(cls, releases: tuple[Release, ...]) -> tuple[Release, ...]:
        """Entries that could never be installed are found when the catalogue is read."""
        for number, release in enumerate(releases, start=1):
            what = f"entry {number} of releases"
            try:
                version = Version.parse(release.version)
            except Invalid as error:
                raise ValueError(f"{what}: version: {error.message}") from error
            if release.version != str(version) or version.major != 1 or version < OLDEST:
                raise ValueError(f"{what}: version: {release.version} is not 1.22.0 or newer")
            if not _SERIES.fullmatch(release.series):
                raise ValueError(f"{what}: series: {release.series!r} is no series such as jammy")
            if release in releases[: number - 1]:
                raise ValueError(f"{what}: {release.version} on {release.series} is there already")
        return releases

    @model_validator(mode="after")
    def _offers_its_default(self) -> Self:
        if self.default not in [release.version for release in self.releases]:
            raise ValueError(f"default: {self.default!r} is the version of no entry of releases")
        return self

    @model_validator(mode="after")
    def _offers_what_it_has_networks_for(self) -> Self:
        offered = {release.version for release in self.releases}
        for version in sorted(self.networks.keys() - offered):
            raise ValueError(f"networks: {version!r} is the version of no entry of releases")
        return self

    def choose(self, asked: str, series: str = "") -> Release:
        """The release asked for, with or without a leading v; the default for an empty string. On
        that series if there is an entry for it, else on the one that new clusters get."""
        wanted = str(Version.parse(asked)) if asked else self.default
        found = [release for release in self.releases if release.version == wanted]
        for release in found:
            if release.series == series:
                return release
        if found:
            return found[0]
        offered = ", ".join(known(self.releases))
        raise Invalid(
            f"Kubernetes {wanted} is not in the catalogue, which offers {offered}", subject=wanted
        )


def known(releases: Iterable[Release]) -> list[str]:
    """The versions of `releases`, each once, oldest first."""
    return [str(version) for version in sorted({Version.parse(each.version) for each in releases})]


CATALOGUE = Catalogue(
    releases=(
        Release(version="1.30.8", series="jammy"),
        Release(version="1.31.4", series="jammy"),
        Release(version="1.32.1", series="jammy"),
        Release(version="1.32.4", series="jammy"),
        Release(version="1.33.0", series="noble"),
        Release(version="1.33.0", series="jammy"),
        Release(version="1.34.1", series="noble"),
        Release(version="1.34.1", series="jammy"),
    ),
    default="1.32.1",
)
"""What is offered unless the settings say otherwise."""
