"""How long resource managers may take."""

from datetime import timedelta

from domain.awaiting import Aim
from domain.frozen import Frozen
from domain.record import Noun


class Patience(Frozen):
    clusterinst_create: timedelta = timedelta(minutes=30)
    clusterinst_update: timedelta = timedelta(minutes=20)
    clusterinst_delete: timedelta = timedelta(minutes=20)
    appinst_create: timedelta = timedelta(minutes=30)
    appinst_delete: timedelta = timedelta(minutes=20)
    autodelete_retry: timedelta = timedelta(seconds=0.5)
    """Between two tries when what is in the way is busy."""

    def of(self, noun: Noun, aim: Aim) -> timedelta:
        return {
            (Noun.CLUSTER_INST, Aim.CREATE): self.clusterinst_create,
            (Noun.CLUSTER_INST, Aim.UPDATE): self.clusterinst_update,
            (Noun.CLUSTER_INST, Aim.DELETE): self.clusterinst_delete,
            (Noun.APP_INST, Aim.CREATE): self.appinst_create,
            (Noun.APP_INST, Aim.DELETE): self.appinst_delete,
        }[noun, aim]


SHORT = Patience(
    clusterinst_create=timedelta(seconds=3),
    clusterinst_update=timedelta(seconds=2),
    clusterinst_delete=timedelta(seconds=2),
    appinst_create=timedelta(seconds=3),
    appinst_delete=timedelta(seconds=2),
    autodelete_retry=timedelta(seconds=0.1),
)
"""For those who try things out."""


def chosen(profile: str, **own: timedelta | None) -> Patience:
    """What holds: as it is said, or else as the profile has it."""
    usual = SHORT if profile == "short" else Patience()
    return usual.model_copy(update={name: time for name, time in own.items() if time is not None})
