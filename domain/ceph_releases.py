"""Which versions of Ceph there are, and from which to which a cluster may go at once."""

from collections.abc import Iterable

from domain.errors import Invalid
from domain.releases import Version

KNOWN = ("16.2.15", "17.2.8", "18.2.7", "19.2.3")
"""What is known unless the settings say otherwise."""

MOST_MAJORS = 2
"""So many major versions are taken in one step. Daemons further apart do not talk."""


def refuse_unknown(version: str, known: Iterable[str]) -> None:
    """Invalid, unless the version is one of these."""
    offered = tuple(known)
    if version not in offered:
        raise Invalid(
            f"Ceph {version[:64]} is not among the versions that are known: {', '.join(offered)}",
            subject=version[:64],
            reason="CEPH_VERSION_UNKNOWN",
            do="choose one of them, or name it in WINDLASS_CEPH__RELEASES",
        )


def major(release: str) -> int:
    """The major version of a release by its name. Names go through the alphabet: pacific is 16, and
    reef, two letters further, 18. 0: it has none."""
    return ord(release[0]) - ord("a") + 1 if release[:1].isalpha() else 0


def too_far(now: str, to: str) -> list[str]:
    """Why a cluster of that version cannot go there at once. Daemons never go back."""
    try:
        present, wanted = Version.parse(now), Version.parse(to)
    except Invalid:
        return [f"nobody knows how to get from {now or 'an unknown version'} to {to}"]
    if wanted < present:
        return [f"it runs {now}, and Ceph does not go back"]
    if wanted.major - present.major > MOST_MAJORS:
        return [f"from {now} to {to} are more than {MOST_MAJORS} major versions: stop in between"]
    return []


def newest(now: str, known: Iterable[str], *, majors: bool = True) -> str:
    """The newest version that a cluster can go to, or without `majors` the newest of its own major
    version. Empty: it runs it, or no path is known."""
    beyond = [each for each in known if each != now and not too_far(now, each)]
    if not majors:
        beyond = [each for each in beyond if Version.parse(each).major == Version.parse(now).major]
    return max(beyond, key=Version.parse, default="")
