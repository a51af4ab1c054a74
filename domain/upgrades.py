"""Which versions a cluster may be upgraded to: decided from catalogue, kubelets and state."""

from collections.abc import Sequence

from domain.cluster import Cluster, Phase
from domain.machine import Role, SlotPhase, SlotState
from domain.releases import Catalogue, Release, Version, known

SKEW = 3
"""By so many minor versions a kubelet may be older than the API."""

OLD_SKEW = 2
TOLERANT = (1, 25)
"""The first version of a kubelet to which the longer skew applies."""


def offered(cluster: Cluster, slots: Sequence[SlotState], catalogue: Catalogue) -> list[str]:
    """What the cluster can be upgraded to now, oldest first: the same minor version or the next, on
    the series its machines run, and not too new for any kubelet. None while something is being
    done to it, or while its control plane is not whole."""
    if not _stands(cluster.phase, slots):
        return []
    kubelets = [Version.parse(slot.kubelet) for slot in slots if slot.kubelet]
    series = {slot.slot.release.series for slot in slots}
    current = Version.parse(cluster.version)

    def fits(release: Release) -> bool:
        version = Version.parse(release.version)
        return (
            reaches(current, version)
            and series <= {release.series}
            and all(tolerates(kubelet, version) for kubelet in kubelets)
        )

    return known(filter(fits, catalogue.releases))


def reaches(current: Version, to: Version) -> bool:
    """Whether `to` is newer by a patch or by one minor version: none may be skipped."""
    return current < to and to.major == current.major and to.minor <= current.minor + 1


def tolerates(kubelet: Version, api: Version) -> bool:
    """Whether a kubelet may talk to an API of that version."""
    skew = SKEW if (kubelet.major, kubelet.minor) >= TOLERANT else OLD_SKEW
    return kubelet.major == api.major and api.minor - skew <= kubelet.minor


def _stands(phase: Phase, slots: Sequence[SlotState]) -> bool:
    if phase is Phase.DEGRADED:
        masters = [slot for slot in slots if slot.slot.role is Role.CONTROL_PLANE]
        return all(slot.phase is SlotPhase.HEALTHY for slot in masters)
    return phase is Phase.RUNNING
