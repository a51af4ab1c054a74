"""The Kubernetes releases we install, and what they are installed on."""

import re
from collections.abc import Iterable
from functools import total_ordering
from typing import Self

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


class Release(Frozen):
    """One entry of the catalogue: a Kubernetes version and the OS series it goes on."""

    version: str
    series: str


class Catalogue(Frozen):
    """What can be asked for, and what is given when nothing is."""

    releases: tuple[Release, ...]
    default: str

    def choose(self, asked: str) -> Release:
        """The release asked for, with or without a leading v; the default for an empty string."""
        wanted = str(Version.parse(asked)) if asked else self.default
        for release in self.releases:
            if release.version == wanted:
                return release
        offered = ", ".join(known(self.releases))
        raise Invalid(
            f"Kubernetes {wanted} is not in the catalogue, which offers {offered}", subject=wanted
        )


def known(releases: Iterable[Release]) -> list[str]:
    """The versions of `releases`, oldest first."""
    return [str(version) for version in sorted(Version.parse(entry.version) for entry in releases)]


CATALOGUE = Catalogue(
    releases=(
        Release(version="1.30.8", series="jammy"),
        Release(version="1.31.4", series="jammy"),
        Release(version="1.32.1", series="jammy"),
        Release(version="1.33.0", series="noble"),
    ),
    default="1.32.1",
)
"""What is offered unless the settings say otherwise."""
