"""What states, formats and events are called in `v1alpha`."""

from domain.happening import Kind
from domain.pod import AppState, Format, PodState
from protos.gen.rkt import api_pb2 as pb

POD_STATES: dict[PodState, pb.PodState.ValueType] = {
    PodState.EMBRYO: pb.POD_STATE_EMBRYO,
    PodState.PREPARING: pb.POD_STATE_PREPARING,
    PodState.PREPARED: pb.POD_STATE_PREPARED,
    PodState.RUNNING: pb.POD_STATE_RUNNING,
    PodState.ABORTED_PREPARE: pb.POD_STATE_ABORTED_PREPARE,
    PodState.EXITED: pb.POD_STATE_EXITED,
    PodState.DELETING: pb.POD_STATE_DELETING,
    PodState.GARBAGE: pb.POD_STATE_GARBAGE,
    PodState.UNDEFINED: pb.POD_STATE_UNDEFINED,
}

APP_STATES: dict[AppState, pb.AppState.ValueType] = {
    AppState.UNDEFINED: pb.APP_STATE_UNDEFINED,
    AppState.RUNNING: pb.APP_STATE_RUNNING,
    AppState.EXITED: pb.APP_STATE_EXITED,
}

FORMATS: dict[Format, pb.ImageType.ValueType] = {
    Format.UNDEFINED: pb.IMAGE_TYPE_UNDEFINED,
    Format.APPC: pb.IMAGE_TYPE_APPC,
    Format.DOCKER: pb.IMAGE_TYPE_DOCKER,
    Format.OCI: pb.IMAGE_TYPE_OCI,
}

KINDS: dict[Kind, pb.EventType.ValueType] = {
    Kind.POD_PREPARED: pb.EVENT_TYPE_POD_PREPARED,
    Kind.POD_PREPARE_ABORTED: pb.EVENT_TYPE_POD_PREPARE_ABORTED,
    Kind.POD_STARTED: pb.EVENT_TYPE_POD_STARTED,
    Kind.POD_EXITED: pb.EVENT_TYPE_POD_EXITED,
    Kind.POD_GARBAGE_COLLECTED: pb.EVENT_TYPE_POD_GARBAGE_COLLECTED,
    Kind.APP_STARTED: pb.EVENT_TYPE_APP_STARTED,
    Kind.APP_EXITED: pb.EVENT_TYPE_APP_EXITED,
    Kind.IMAGE_IMPORTED: pb.EVENT_TYPE_IMAGE_IMPORTED,
    Kind.IMAGE_REMOVED: pb.EVENT_TYPE_IMAGE_REMOVED,
}
