"""The contract's words for what the domain has words for. A number that is none of them is the
caller's mistake, and each place says so in its own words."""

from domain.access_ports import Protocol
from domain.app import ImageType
from domain.cloudlet import IpSupport
from domain.cloudlet_info import CloudletState
from domain.clusterinst import IpAccess
from domain.override import Override
from domain.tracking import Phase
from protos.gen.edge import app_pb2, cloudlet_pb2, common_pb2
from protos.gen.edge.dme import appcommon_pb2

IMAGE_TYPES: dict[int, ImageType] = {
    app_pb2.IMAGE_TYPE_UNKNOWN: ImageType.UNKNOWN,
    app_pb2.IMAGE_TYPE_DOCKER: ImageType.DOCKER,
    app_pb2.IMAGE_TYPE_QCOW: ImageType.QCOW,
}

YIELDS: dict[int, bool] = {app_pb2.NO_AUTO_DELETE: False, app_pb2.AUTO_DELETE: True}
"""Whether apps give way when what they need is deleted."""

IP_SUPPORT: dict[int, IpSupport] = {
    common_pb2.IP_SUPPORT_UNKNOWN: IpSupport.UNSAID,
    common_pb2.IP_SUPPORT_STATIC: IpSupport.STATIC,
    common_pb2.IP_SUPPORT_DYNAMIC: IpSupport.DYNAMIC,
}

IP_ACCESS: dict[int, IpAccess] = {
    common_pb2.IP_ACCESS_UNKNOWN: IpAccess.UNKNOWN,
    common_pb2.IP_ACCESS_DEDICATED: IpAccess.DEDICATED,
    common_pb2.IP_ACCESS_DEDICATED_OR_SHARED: IpAccess.DEDICATED_OR_SHARED,
    common_pb2.IP_ACCESS_SHARED: IpAccess.SHARED,
}
IP_ACCESS_NUMBERS: dict[IpAccess, common_pb2.IpAccess.ValueType] = {
    access: common_pb2.IpAccess.Value(access) for access in IpAccess
}

OVERRIDES: dict[int, Override] = {
    common_pb2.CRMOverride.Value(override): override for override in Override
}

PHASES: dict[Phase, common_pb2.TrackedState.ValueType] = {
    phase: common_pb2.TrackedState.Value(phase) for phase in Phase
}
"""The contract's word for every phase. TRACKED_STATE_UNKNOWN is never said."""

HEARD: dict[int, Phase] = {number: phase for phase, number in PHASES.items()}
"""What resource managers say. All else is no phase."""

PROTOCOLS: dict[Protocol, appcommon_pb2.LProto.ValueType] = {
    Protocol.TCP: appcommon_pb2.L_PROTO_TCP,
    Protocol.UDP: appcommon_pb2.L_PROTO_UDP,
    Protocol.HTTP: appcommon_pb2.L_PROTO_HTTP,
}

CLOUDLET_STATES: dict[int, CloudletState] = {
    cloudlet_pb2.CloudletState.Value(f"CLOUDLET_STATE_{state}"): state for state in CloudletState
}
