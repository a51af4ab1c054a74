"""Between the messages of the edge contract and the words of the domain.

A message is kept as its bytes. What is read out of it here is what rules have to know."""

import json
from collections.abc import Iterable
from typing import Any

from api.edge import instances, keys, states
from api.edge.masks import FIELDS, Mask
from domain import app as apps
from domain import key_text
from domain.app import App, Claim, Service
from domain.cloudlet import Changing, Cloudlet, CloudletKey, IpSupport
from domain.cloudlet_info import CloudletInfo, CloudletState
from domain.flavor import Flavor
from domain.record import Link, Need, Noun, Record
from domain.refusal import Refusal, refuse_if
from protos.gen.edge import (
    app_inst_pb2,
    app_pb2,
    cloudlet_pb2,
    cluster_pb2,
    clusterinst_pb2,
    developer_pb2,
    flavor_pb2,
    operator_pb2,
)


def record(noun: Noun, message: Any, links: Iterable[Link] = (), facts: str = "") -> Record:
    """A message as it is kept: without the mask it came with, and the same bytes every time."""
    kept = type(message)()
    kept.CopyFrom(message)
    if FIELDS in kept.DESCRIPTOR.fields_by_name:
        kept.ClearField(FIELDS)
    value = kept.SerializeToString(deterministic=True)
    return Record(noun=noun, key=keys.of(kept), value=value, links=tuple(links), facts=facts)


def developer(message: developer_pb2.Developer) -> Record:
    return record(Noun.DEVELOPER, message)


def operator(message: operator_pb2.Operator) -> Record:
    return record(Noun.OPERATOR, message)


def flavor(message: flavor_pb2.Flavor) -> Flavor:
    return Flavor(name=message.key.name, ram=message.ram, vcpus=message.vcpus, disk=message.disk)


def flavor_record(message: flavor_pb2.Flavor) -> Record:
    return record(Noun.FLAVOR, message, facts=flavor(message).model_dump_json())


def template(message: cluster_pb2.Cluster) -> Record:
    usual = message.default_flavor
    return record(Noun.CLUSTER, message, _flavors(usual), json.dumps(usual.name))


def template_needs(message: cluster_pb2.Cluster) -> list[Need]:
    named = message.default_flavor
    return [
        Need(to=link.to, key=link.key, refusal=Refusal.CLUSTER_FLAVOR, name=named.name)
        for link in _flavors(named)
    ]


def cloudlet(message: cloudlet_pb2.Cloudlet) -> Cloudlet:
    return Cloudlet(
        operator=message.key.operator_key.name,
        name=message.key.name,
        ip_support=states.IP_SUPPORT.get(message.ip_support, IpSupport.STRANGE),
        dynamic_ips=message.num_dynamic_ips,
        latitude=message.location.latitude,
        longitude=message.location.longitude,
        whereabouts=instances.whereabouts(message.location),
    )


def cloudlet_changing(mask: Mask) -> Changing:
    return Changing(
        ip_support=mask.names("6"),
        dynamic_ips=mask.names("8"),
        latitude=mask.names("5.1"),
        longitude=mask.names("5.2"),
    )


def cloudlet_record(message: cloudlet_pb2.Cloudlet) -> Record:
    of = Link(to=Noun.OPERATOR, key=keys.written(message.key.operator_key))
    return record(Noun.CLOUDLET, message, [of], cloudlet(message).model_dump_json())


def cloudlet_needs(message: cloudlet_pb2.Cloudlet) -> list[Need]:
    key = keys.written(message.key.operator_key)
    return [Need(to=Noun.OPERATOR, key=key, refusal=Refusal.STRICT_OPERATOR, strict=True)]


def app(message: app_pb2.App) -> App:
    """An app as it is described. Its key is looked at first, then its enums."""
    described = App(
        developer=message.key.developer_key.name,
        name=message.key.name,
        version=message.key.version,
        image_type=states.IMAGE_TYPES.get(message.image_type, apps.ImageType.UNKNOWN),
        image_path=message.image_path,
        access_ports=message.access_ports,
        config=message.config,
        default_flavor=message.default_flavor.name,
        auth_public_key=message.auth_public_key,
        command=message.command,
        deployment=message.deployment,
        manifest=message.deployment_manifest,
        generator=message.deployment_generator,
        android_package=message.android_package_name,
        auto_delete=states.YIELDS.get(message.del_opt, False),
    )
    apps.check_key(described)
    refuse_if(message.image_type not in states.IMAGE_TYPES, Refusal.APP_IMAGE_TYPE)
    refuse_if(message.del_opt not in states.YIELDS, Refusal.APP_DELETE_TYPE)
    return described


def write_app(message: app_pb2.App, described: App) -> None:
    """Write into a message what followed from it."""
    message.image_path = described.image_path
    message.access_ports = described.access_ports
    message.config = described.config
    message.deployment = described.deployment
    message.deployment_manifest = described.manifest
    message.deployment_generator = described.generator


def kept_app(message: app_pb2.App, services: tuple[Service, ...] = ()) -> Record:
    """An app with what it names: its developer, its flavor, its Android package. `services` are
    those of its manifest."""
    described = app(message).model_copy(update={"services": services})
    yields = described.auto_delete
    of = keys.written(message.key.developer_key)
    links = [Link(to=Noun.DEVELOPER, key=of, yields=yields)]
    links += _flavors(message.default_flavor, yields=yields)
    if taken := claim(message):
        links.append(taken.link)
    return record(Noun.APP, message, links, described.model_dump_json())


def claim(message: app_pb2.App) -> Claim | None:
    """The Android package that an app takes for itself, if it names one."""
    package = message.android_package_name
    if not package:
        return None
    link = Link(to=Noun.ANDROID_PACKAGE, key=key_text.limited(json.dumps(package)))
    owner = (message.key.developer_key.name, message.key.name)
    return Claim(owner=owner, package=package, link=link)


def app_flavor_need(message: app_pb2.App) -> Need:
    key = keys.written(message.default_flavor)
    return Need(to=Noun.FLAVOR, key=key, refusal=Refusal.APP_FLAVOR)


def app_needs(message: app_pb2.App) -> list[Need]:
    key = keys.written(message.key.developer_key)
    owner = Need(to=Noun.DEVELOPER, key=key, refusal=Refusal.STRICT_DEVELOPER, strict=True)
    return [app_flavor_need(message), owner]


def cloudlet_info(message: cloudlet_pb2.CloudletInfo) -> Record:
    """It gives way with the API process that it was said to, if it was said to one."""
    said_to = message.controller.rpartition("@")[2]
    link = Link(to=Noun.CONTROLLER, key=said_to, yields=True)
    info = CloudletInfo(
        key=CloudletKey(operator=message.key.operator_key.name, name=message.key.name),
        state=states.CLOUDLET_STATES.get(message.state, CloudletState.UNKNOWN),
        flavors=tuple(
            Flavor(name=size.name, ram=size.ram, vcpus=size.vcpus, disk=size.disk)
            for size in message.flavors
        ),
        max_ram=message.os_max_ram,
        max_vcores=message.os_max_vcores,
        max_disk=message.os_max_vol_gb,
        stream=message.notify_id,
        controller=message.controller,
    )
    facts = info.model_dump_json()
    return record(Noun.CLOUDLET_INFO, message, [link] if said_to else [], facts)


def clusterinst_info(message: clusterinst_pb2.ClusterInstInfo) -> Record:
    return record(Noun.CLUSTER_INST_INFO, message)


def appinst_info(message: app_inst_pb2.AppInstInfo) -> Record:
    return record(Noun.APP_INST_INFO, message)


def _flavors(key: flavor_pb2.FlavorKey, *, yields: bool = False) -> list[Link]:
    return [Link(to=Noun.FLAVOR, key=keys.written(key), yields=yields)] if key.name else []
