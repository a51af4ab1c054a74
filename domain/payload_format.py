"""How what is given to Temporal is written and read while an installation is brought up to date."""

from enum import StrEnum


class Migration(StrEnum):
    """Which formats of payloads are taken and written.

    In the old ones, plain and `payload-1`, nothing says where a payload belongs: as long as they
    are taken, whoever can write to Temporal can have any step done."""

    OFF = "off"
    """What is sealed and bound to its place is taken and written, and nothing else."""
    READ_OLD = "read-old"
    """The old formats are taken, too: work that was begun by an older release is finished."""
    WRITE_OLD = "write-old"
    """They are written as well: workers of the older release run beside this one."""

    @property
    def reads_old(self) -> bool:
        return self is not Migration.OFF

    @property
    def writes_old(self) -> bool:
        return self is Migration.WRITE_OLD
