"""Between the messages of instances and the words of the domain."""

from api.edge import states
from domain.appinst import AppInst, AppInstKey
from domain.cloudlet import CloudletKey, Whereabouts
from domain.clusterinst import ClusterInst, ClusterInstKey
from domain.override import Override
from domain.refusal import Refusal
from domain.standing import (
    AppInstStanding,
    CloudletStanding,
    ClusterInstStanding,
    ClusterStanding,
)
from protos.gen.edge import app_inst_pb2, app_pb2, cloudlet_pb2, clusterinst_pb2, refs_pb2
from protos.gen.edge.common_pb2 import LIVENESS_DYNAMIC, LIVENESS_STATIC
from protos.gen.edge.dme.loc_pb2 import Loc


def override(number: int) -> Override:
    if number not in states.OVERRIDES:
        raise Refusal.ENUM_UNKNOWN(enum="CRMOverride")
    return states.OVERRIDES[number]


def cloudlet_key(message: cloudlet_pb2.CloudletKey) -> CloudletKey:
    return CloudletKey(operator=message.operator_key.name, name=message.name)


def clusterinst_key(message: clusterinst_pb2.ClusterInstKey) -> ClusterInstKey:
    return ClusterInstKey(
        cluster=message.cluster_key.name,
        cloudlet=cloudlet_key(message.cloudlet_key),
        developer=message.developer,
    )


def clusterinst(message: clusterinst_pb2.ClusterInst) -> ClusterInst:
    """A cluster as it is asked for. What is ours to say is not looked at."""
    if message.ip_access not in states.IP_ACCESS:
        raise Refusal.ENUM_UNKNOWN(enum="IpAccess")
    return ClusterInst(
        key=clusterinst_key(message.key),
        flavor=message.flavor.name,
        ip_access=states.IP_ACCESS[message.ip_access],
        masters=message.num_masters,
        nodes=message.num_nodes,
        deployment=message.deployment,
    )


def clusterinst_message(standing: ClusterInstStanding) -> clusterinst_pb2.ClusterInst:
    cluster = standing.cluster
    message = clusterinst_pb2.ClusterInst(
        state=states.PHASES[standing.phase],
        errors=standing.errors,
        ip_access=states.IP_ACCESS_NUMBERS[cluster.ip_access],
        allocated_ip=cluster.allocated_ip,
        liveness=LIVENESS_DYNAMIC if cluster.auto else LIVENESS_STATIC,
        auto=cluster.auto,
        node_flavor=cluster.node_flavor,
        num_masters=cluster.masters,
        num_nodes=cluster.nodes,
        deployment=cluster.deployment,
    )
    _write_clusterinst_key(message.key, cluster.key)
    message.flavor.name = cluster.flavor
    return message


def appinst_key(message: app_inst_pb2.AppInstKey) -> AppInstKey:
    return AppInstKey(
        developer=message.app_key.developer_key.name,
        app=message.app_key.name,
        version=message.app_key.version,
        cluster=clusterinst_key(message.cluster_inst_key),
    )


def appinst(message: app_inst_pb2.AppInst) -> AppInst:
    """An instance as it is asked for. What is ours to say is not looked at."""
    if message.auto_cluster_ip_access not in states.IP_ACCESS:
        raise Refusal.ENUM_UNKNOWN(enum="IpAccess")
    return AppInst(
        key=appinst_key(message.key),
        uri=message.uri,
        flavor=message.flavor.name,
        auto_ip_access=states.IP_ACCESS[message.auto_cluster_ip_access],
    )


def appinst_message(standing: AppInstStanding) -> app_inst_pb2.AppInst:
    instance = standing.instance
    message = app_inst_pb2.AppInst(
        uri=instance.uri,
        liveness=LIVENESS_STATIC,
        state=states.PHASES[standing.phase],
        errors=standing.errors,
        auto_cluster_ip_access=states.IP_ACCESS_NUMBERS[instance.auto_ip_access],
    )
    message.created_at.seconds = int(standing.created.timestamp())
    message.created_at.nanos = standing.created.microsecond * 1000
    for port in instance.ports:
        message.mapped_ports.add(
            proto=states.PROTOCOLS[port.protocol],
            internal_port=port.internal,
            public_port=port.public,
            path_prefix=port.path_prefix,
            fqdn_prefix=port.fqdn_prefix,
        )
    _write_app_key(
        message.key.app_key, instance.key.developer, instance.key.app, instance.key.version
    )
    _write_clusterinst_key(message.key.cluster_inst_key, instance.key.cluster)
    message.flavor.name = instance.flavor
    _write_location(message.cloudlet_loc, instance)
    message.runtime_info.container_ids.extend(standing.runtime)
    return message


def cloudlet_refs_message(standing: CloudletStanding) -> refs_pb2.CloudletRefs:
    usage = standing.usage
    message = refs_pb2.CloudletRefs(
        used_ram=usage.ram,
        used_vcores=usage.vcores,
        used_disk=usage.disk,
        root_lb_ports=usage.ports,
        used_dynamic_ips=usage.addresses,
    )
    for name in standing.clusters:
        message.clusters.add().name = name
    key = CloudletKey(operator=standing.operator, name=standing.name)
    _write_cloudlet_key(message.key, key)
    return message


def cluster_refs_message(standing: ClusterStanding) -> refs_pb2.ClusterRefs:
    message = refs_pb2.ClusterRefs(
        used_ram=standing.ram, used_vcores=standing.vcores, used_disk=standing.disk
    )
    _write_clusterinst_key(message.key, standing.cluster.key)
    for app in standing.apps:
        _write_app_key(message.apps.add(), *app)
    return message


def whereabouts(location: Loc) -> Whereabouts:
    return Whereabouts(
        horizontal_accuracy=location.horizontal_accuracy,
        vertical_accuracy=location.vertical_accuracy,
        altitude=location.altitude,
        course=location.course,
        speed=location.speed,
        seconds=location.timestamp.seconds,
        nanos=location.timestamp.nanos,
    )


def _write_location(location: Loc, instance: AppInst) -> None:
    about = instance.whereabouts
    location.latitude, location.longitude = instance.latitude, instance.longitude
    location.horizontal_accuracy = about.horizontal_accuracy
    location.vertical_accuracy = about.vertical_accuracy
    location.altitude, location.course, location.speed = about.altitude, about.course, about.speed
    if about.seconds or about.nanos:
        location.timestamp.seconds, location.timestamp.nanos = about.seconds, about.nanos


def _write_app_key(message: app_pb2.AppKey, developer: str, name: str, version: str) -> None:
    message.developer_key.name, message.name, message.version = developer, name, version


def _write_cloudlet_key(message: cloudlet_pb2.CloudletKey, key: CloudletKey) -> None:
    message.operator_key.name, message.name = key.operator, key.name


def _write_clusterinst_key(message: clusterinst_pb2.ClusterInstKey, key: ClusterInstKey) -> None:
    message.cluster_key.name, message.developer = key.cluster, key.developer
    _write_cloudlet_key(message.cloudlet_key, key.cloudlet)
