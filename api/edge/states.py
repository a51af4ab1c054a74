"""The contract's words for what the domain has words for. A number that is none of them is the
caller's mistake, and each place says so in its own words."""

from domain.app import ImageType
from domain.cloudlet import IpSupport
from protos.gen.edge import app_pb2, common_pb2

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
