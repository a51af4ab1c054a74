"""Apps, as their developers describe them, and what follows from a description.

Each function takes an app that has passed those before it; `api/edge/drafting.py` calls them in the
order in which clients know the checks."""

from enum import StrEnum

from domain import access_ports
from domain.frozen import Frozen
from domain.naming import as_image, is_title
from domain.record import Link
from domain.refusal import Refusal, refuse_if


class ImageType(StrEnum):
    UNKNOWN = "IMAGE_TYPE_UNKNOWN"
    DOCKER = "IMAGE_TYPE_DOCKER"
    QCOW = "IMAGE_TYPE_QCOW"


class Deployment(StrEnum):
    """In the order in which clients are told of them."""

    KUBERNETES = "kubernetes"
    VM = "vm"
    HELM = "helm"
    DOCKER = "docker"


USUAL: dict[ImageType, Deployment] = {
    ImageType.DOCKER: Deployment.KUBERNETES,
    ImageType.QCOW: Deployment.VM,
}
"""How images are deployed if nobody says."""

PAIRS: dict[Deployment, ImageType] = {
    Deployment.KUBERNETES: ImageType.DOCKER,
    Deployment.VM: ImageType.QCOW,
    Deployment.HELM: ImageType.UNKNOWN,
    Deployment.DOCKER: ImageType.DOCKER,
}

KUBERNETES_BASIC = "kubernetes-basic"
"""The generator of manifests that we have ourselves."""

CLOUD_CONFIG = "#cloud-config"


class Service(Frozen):
    """A service of a manifest, as far as ports are concerned."""

    name: str
    ports: tuple[tuple[str, int], ...]
    """What carries it, TCP or UDP, and the port that the app listens on."""


class App(Frozen):
    developer: str
    name: str
    version: str
    image_type: ImageType = ImageType.UNKNOWN
    image_path: str = ""
    access_ports: str = ""
    config: str = ""
    default_flavor: str = ""
    auth_public_key: str = ""
    command: str = ""
    deployment: str = ""
    """One of `Deployment` once the app is whole."""
    manifest: str = ""
    generator: str = ""
    android_package: str = ""
    auto_delete: bool = False
    services: tuple[Service, ...] = ()
    """Those of its manifest, if it runs on Kubernetes."""

    @property
    def owner(self) -> tuple[str, str]:
        """Whose app it is in all its versions."""
        return self.developer, self.name


class Claim(Frozen):
    """That an Android package belongs to an app, in all its versions."""

    owner: tuple[str, str]
    package: str
    link: Link


def check_key(app: App) -> None:
    refuse_if(not is_title(app.name), Refusal.APP_NAME)
    refuse_if(not is_title(app.version), Refusal.APP_VERSION)
    refuse_if(not is_title(app.developer), Refusal.DEVELOPER_NAME)


def check_ports(app: App) -> None:
    """Refuse ports that cannot be read. They are kept as they were written, since clients compare
    what they are shown; everything that is derived from them has protocols in lower case."""
    access_ports.parse(app.access_ports)


def with_deployment(app: App) -> App:
    """How it is deployed: as it says, or as its image usually is."""
    deployment = app.deployment or USUAL.get(app.image_type, "")
    refuse_if(not deployment, Refusal.APP_NO_DEPLOYMENT, image_type=app.image_type)
    known = deployment in set(Deployment)
    refuse_if(not known, Refusal.APP_DEPLOYMENT, name=deployment, known=" ".join(Deployment))
    fits = PAIRS[Deployment(deployment)] is app.image_type
    refuse_if(not fits, Refusal.APP_DEPLOYMENT_IMAGE)
    return app.model_copy(update={"deployment": str(deployment)})


def with_image(app: App, host: str) -> App:
    """Where its image lies: where it says, or where its developer's images are kept on `host`."""
    if app.image_type is ImageType.QCOW:
        _check_qcow(app.image_path)
        return app
    return app.model_copy(update={"image_path": app.image_path or _usual_path(app, host)})


def with_generator(app: App) -> App:
    """Who makes its manifest. One that is named makes it whatever manifest was given; if neither is
    given, Kubernetes needs one all the same."""
    needs_one = app.deployment == Deployment.KUBERNETES and not (app.generator or app.manifest)
    generator = KUBERNETES_BASIC if needs_one else app.generator
    return app.model_copy(update={"generator": generator})


def check_manifest(app: App) -> None:
    """Refuse a virtual machine's manifest that is none. Others are not looked into."""
    if app.deployment == Deployment.VM and app.manifest:
        refuse_if(app.command, Refusal.APP_VM_COMMAND)
        refuse_if(not app.manifest.startswith(CLOUD_CONFIG), Refusal.APP_VM_MANIFEST)


def without_stale_generator(app: App, before: App) -> App:
    """A changed app without what was generated for another kind of deployment."""
    stale = app.deployment != before.deployment and app.generator == KUBERNETES_BASIC
    return app.model_copy(update={"generator": "", "manifest": ""}) if stale else app


def _check_qcow(path: str) -> None:
    refuse_if(not path, Refusal.APP_NO_IMAGE)
    _, *checksum = path.split("#")
    refuse_if(len(checksum) != 1, Refusal.APP_NO_MD5)
    algorithm, *rest = checksum[0].split(":")
    refuse_if(len(rest) != 1, Refusal.APP_MD5_FORMAT)
    refuse_if(algorithm != "md5", Refusal.APP_MD5_ONLY)


def _usual_path(app: App, host: str) -> str:
    tag = "" if app.deployment == Deployment.HELM else f":{as_image(app.version)}"
    return f"{host}/{as_image(app.developer)}/images/{as_image(app.name)}{tag}"
