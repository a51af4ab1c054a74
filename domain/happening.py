"""What happens to pods and images, and who wants to hear of it."""

from enum import StrEnum

from domain.errors import Invalid
from domain.frozen import Frozen
from domain.pod import Pairs

SECOND_NS = 1_000_000_000


class Kind(StrEnum):
    POD_PREPARED = "POD_PREPARED"
    POD_PREPARE_ABORTED = "POD_PREPARE_ABORTED"
    POD_STARTED = "POD_STARTED"
    POD_EXITED = "POD_EXITED"
    POD_GARBAGE_COLLECTED = "POD_GARBAGE_COLLECTED"
    APP_STARTED = "APP_STARTED"
    APP_EXITED = "APP_EXITED"
    IMAGE_IMPORTED = "IMAGE_IMPORTED"
    IMAGE_REMOVED = "IMAGE_REMOVED"


class Happening(Frozen):
    kind: Kind
    id: str
    """The pod's, of its apps too; or the image's."""
    name: str
    """The pod's, the app's or the image's."""
    time_ns: int
    data: Pairs = ()


class Place(Frozen):
    """Up to where somebody has heard."""

    era: int = 0
    number: int = 0


class Heard(Frozen):
    """A happening, and the place right after it."""

    happening: Happening
    place: Place


class Interest(Frozen):
    """Conditions that must all hold. One that is empty does."""

    kinds: tuple[Kind | None, ...] = ()
    """None matches nothing."""
    ids: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    since: int = 0
    """Seconds; exclusive, as is the next."""
    until: int = 0

    def check(self) -> None:
        if self.since < 0 or self.until < 0:
            raise Invalid("times are seconds since 1970", reason="TIME_INVALID", do="leave them 0")
        if self.since and self.until and self.since >= self.until:
            raise Invalid(
                f"since_time {self.since} is not before until_time {self.until}",
                reason="TIME_INVALID",
                do="ask for a time that ends after it begins",
            )

    def covers(self, one: Happening) -> bool:
        # Whole seconds are compared with nanoseconds, so nothing within the first second is lost.
        return (
            (not self.kinds or one.kind in self.kinds)
            and (not self.ids or one.id in self.ids)
            and (not self.names or one.name in self.names)
            and (not self.since or one.time_ns > self.since * SECOND_NS)
            and (not self.until or one.time_ns < self.until * SECOND_NS)
        )
