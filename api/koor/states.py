"""How things stand, in the words of the koor contract."""

from domain.reliability import Score
from domain.storage_resources import Standing
from domain.upgrade_policy import Mode
from protos.gen.koor.api.resources.stats import stats_pb2 as pb

RESOURCE_STATUS: dict[Standing, pb.ResourceStatus.ValueType] = {
    Standing.UNKNOWN: pb.RESOURCE_UNKNOWN,
    Standing.READY: pb.RESOURCE_READY,
    Standing.PROGRESSING: pb.RESOURCE_PROGRESSING,
    Standing.NOT_READY: pb.RESOURCE_NOT_READY,
}

RELIABILITY: dict[Score | None, pb.ReliabilityScore.ValueType] = {
    None: pb.RELIABILITY_UNKNOWN,
    Score.NONE: pb.RELIABILITY_NONE,
    Score.DEGRADED: pb.RELIABILITY_DEGRADED,
    Score.OK: pb.RELIABILITY_OK,
}

UPGRADE_MODE: dict[Mode, pb.UpgradeMode.ValueType] = {
    Mode.DISABLED: pb.UPGRADE_MODE_DISABLED,
    Mode.NOTIFY: pb.UPGRADE_MODE_NOTIFY,
    Mode.UPGRADE: pb.UPGRADE_MODE_UPGRADE,
}
