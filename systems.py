"""Parts of `settings.py`: the systems that we stand on, simulated ones too, and who is let in."""

import asyncio
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from domain.ceph_releases import KNOWN
from domain.errors import Failed, Invalid
from domain.machine import Erasing
from domain.payload_format import Migration
from domain.radar import Stability
from domain.supplies import Supplies
from domain.upgrade_policy import Mode, UpgradePolicy

STATE = ".windlass"
BELOW_STATE = {
    "database": "sqlite+aiosqlite:///{}/windlass.db",
    "key_file": "{}/seal.key",
    "backups": "{}/backups",
    "maas.api_key_file": "{}/maas.key",
    "ceph.password_file": "{}/ceph.password",
}
"""What lies below `state`, wherever that is, unless somebody says where it is."""


HIDDEN = "hidden"
"""Marks settings that may hold a secret although they are no secret by type."""


class Part(BaseModel):
    """Settings that belong together."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class MissingKeyError(Exception):
    """There is no API key for MAAS to be found."""


class Temporal(Part):
    address: str = Field("127.0.0.1:7233", description="where the Temporal server is")
    namespace: str = Field("default", description="the Temporal namespace")
    embedded: bool = Field(True, description="whether `windlass up` runs a dev server itself")
    ui_port: int = Field(8233, description="where the embedded server's web UI is")
    ui_origins: tuple[str, ...] | None = Field(
        None,
        description="origins of Temporal's web UI, whose pages may have payloads opened at "
        "/codec/decode; unset: the embedded server's",
    )
    metrics_port: int = Field(8234, description="where the embedded server's metrics are")
    queue_prefix: str = Field("", description="put before every task queue's name")
    tls: bool = Field(
        False,
        description="whether the connection is by TLS; it is, too, with any of the next five",
    )
    ca_file: Path | None = Field(
        None,
        description="the authorities that Temporal's certificate is believed of; unset: "
        "this system's",
    )
    cert_file: Path | None = Field(
        None, description="the certificate, with its chain, that Temporal knows Windlass by"
    )
    key_file: Path | None = Field(None, description="that certificate's key")
    server_name: str = Field(
        "", description="the name in Temporal's certificate, if the address has another"
    )
    api_key: SecretStr = Field(SecretStr(""), description="sent with every call, over TLS alone")
    api_key_file: Path | None = Field(None, description="read when api_key is empty")
    migration: Migration = Field(
        Migration.OFF,
        description="while an installation is brought up to date: read-old takes payloads that an "
        "older release wrote, write-old writes them so as well; any but off lets whoever can write "
        "to Temporal have any step done",
    )

    @model_validator(mode="after")
    def _has_both_halves(self) -> Self:
        if (self.cert_file is None) is not (self.key_file is None):
            raise ValueError("cert_file and key_file are set together, or neither is")
        return self

    def trust(self) -> dict[str, Any]:
        """How the server is known, and what it knows us by."""
        return {
            "tls": self.tls,
            "authority": self.ca_file,
            "certificate": self.cert_file,
            "key": self.key_file,
            "server_name": self.server_name,
            "api_key": self._api_key(),
        }

    def _api_key(self) -> str:
        if self.api_key.get_secret_value() or self.api_key_file is None:
            return self.api_key.get_secret_value()
        try:
            return self.api_key_file.read_text().strip()
        except OSError as error:
            raise Invalid(
                f"{self.api_key_file} cannot be read, which the connection to Temporal needs: "
                f"{error.strerror}",
                do="make it readable, or correct WINDLASS_TEMPORAL__API_KEY_FILE",
            ) from error

    @property
    def is_private(self) -> bool:
        """Whether nobody beyond this machine can listen to the connection."""
        secured = (self.tls, self.ca_file, self.cert_file, self.server_name)
        if any(secured) or self.api_key.get_secret_value() or self.api_key_file:
            return True
        host = self.address.rpartition(":")[0].strip("[]")
        return host in {"localhost", "127.0.0.1", "::1"}

    def ui(self) -> tuple[str, ...]:
        """Where its web UI is, by every name that a browser may call it."""
        if self.ui_origins is not None or not self.embedded:
            return self.ui_origins or ()
        hosts = dict.fromkeys((self.address.rpartition(":")[0], "localhost", "127.0.0.1"))
        return tuple(f"http://{host}:{self.ui_port}" for host in hosts)


class Supply(Part):
    """Where machines get packages and images from, if not from where the world gets them."""

    image_repository: str = Field(
        "", description="where Kubernetes' images are, in place of registry.k8s.io"
    )
    sandbox_image: str = Field(
        "", description="the pods' sandbox image; empty: the one that goes with the version"
    )
    mirrors: dict[str, str] = Field(
        {}, description="by registry, the URL that containerd asks first, as a JSON object"
    )
    package_source: str = Field(
        "",
        description="a line of apt's sources for Kubernetes' packages; $MINOR in it becomes the "
        "minor version; empty: MAAS knows the repository",
    )
    package_key: Path | None = Field(None, description="the key that it is signed with, armoured")
    proxy: str = Field(
        "",
        pattern=r"^$|^https?://[^@\s]+$",
        description="the HTTP proxy of machines; it can be read in MAAS, so without a password",
    )
    no_proxy: tuple[str, ...] = Field(
        (), description="what is not asked of it, besides private networks and the cluster's own"
    )
    ca_file: Path | None = Field(
        None, description="PEM; authorities that machines trust besides their own"
    )

    def read(self) -> Supplies:
        """The same, with what the files say. Failed if one of them cannot be read."""
        return Supplies(
            image_repository=self.image_repository,
            sandbox_image=self.sandbox_image,
            mirrors=self.mirrors,
            package_source=self.package_source,
            package_key=_text(self.package_key),
            proxy=self.proxy,
            no_proxy=self.no_proxy,
            authorities=_text(self.ca_file),
        )


def _text(path: Path | None) -> str:
    try:
        return path.read_text() if path else ""
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{path} cannot be read: {error}") from error


class Maas(Part):
    url: str = Field("http://127.0.0.1:5240/MAAS/", description="the MAAS region")
    api_key: SecretStr = Field(SecretStr(""), description="consumer:token:secret")
    api_key_file: Path | None = Field(
        Path(BELOW_STATE["maas.api_key_file"].format(STATE)),
        description="read when api_key is empty; below `state` unless it is set",
    )
    at_once: int = Field(10, description="requests to MAAS at the same time, per process")
    erase: Erasing = Field(
        Erasing.NONE,
        description="what becomes of the disks of machines that ran and are given back: none, "
        "quick, secure or full; erasing takes up to hours",
    )
    supply: Supply = Supply()

    def key(self) -> str:
        """The API key, from the setting or the file it names."""
        if self.api_key.get_secret_value():
            return self.api_key.get_secret_value()
        if self.api_key_file is None:
            raise MissingKeyError("neither maas.api_key nor maas.api_key_file is set")
        try:
            return self.api_key_file.read_text().strip()
        except OSError as error:
            raise MissingKeyError(f"{self.api_key_file} cannot be read: {error}") from error


class Pool(Part):
    copies: int = Field(3, ge=2, description="of everything in a cluster's own pool")
    groups: int = Field(32, ge=1, description="placement groups of such a pool")
    most_bytes: int = Field(0, ge=0, description="how much it may hold; 0: as much as there is")


class CephUpgrade(Part):
    mode: Mode = Field(
        Mode.NOTIFY,
        description="what is done about a newer version of Ceph: disabled, notify or upgrade, "
        "which goes to the newest of the major version that runs",
    )
    schedule: str = Field(
        "0 0 * * *",
        description="when it is looked for one: five fields as in cron, or @daily and its like, "
        "after TZ=ZONE perhaps",
    )
    time_zone: str = Field("UTC", description="of a schedule that names none")

    @model_validator(mode="after")
    def _means_something(self) -> Self:
        self.policy()
        return self

    def policy(self) -> UpgradePolicy:
        return UpgradePolicy(**self.model_dump())


class Ceph(Part):
    name: str = Field("ceph", description="what the Ceph cluster is called")
    urls: tuple[str, ...] = Field(
        ("http://127.0.0.1:5240/ceph",),
        description="where its managers' dashboards are, all of them; empty: there is no Ceph",
    )
    user: str = Field("windlass", description="a user of the dashboard")
    password: SecretStr = Field(SecretStr(""), description="that user's password")
    password_file: Path | None = Field(
        Path(BELOW_STATE["ceph.password_file"].format(STATE)),
        description="read when password is empty, each time somebody signs in; below `state` "
        "unless it is set",
    )
    ca_file: Path | None = Field(
        None,
        description="the only authority to trust, or the manager's own certificate; names are not "
        "compared then. Without one the machine's authorities are trusted",
    )
    conf_file: Path | None = Field(
        None, description="Ceph's own configuration, for its program `ceph`"
    )
    keyring_file: Path | None = Field(
        None,
        description="with it the key of client.admin: with both the mons are asked at every look. "
        "Needed before release 17, whose managers cannot make identities; empty: the program is "
        "not used",
    )
    kubernetes: str = Field(
        "", description="the cluster of ours that it runs in, with Rook or without; empty: none"
    )
    namespace: str = Field("rook-ceph", description="where in that cluster")
    pool: Pool = Pool()
    releases: tuple[str, ...] = Field(
        KNOWN,
        description="the versions that it may be upgraded to, each by its three numbers",
    )
    upgrade: CephUpgrade = CephUpgrade()
    look_seconds: float = Field(
        5.0, ge=1, description="between two looks at it; without news for three it is offline"
    )
    stability: Stability = Field(
        Stability.CHECKS,
        description="the radar's stability: checks, 10 less for each that fails; or weighted, "
        "25 less for an error, 10 for a warning and 5 for a crash, and nothing for what is muted",
    )

    async def secret(self) -> str:
        """The password, from the setting or the file it names. Failed if it is in neither: whoever
        signs in may be told to do so at any time."""
        if said := self.password.get_secret_value():
            return said
        try:
            file = self.password_file or Path()
            return (await asyncio.to_thread(file.read_text)).strip()
        except OSError as error:
            raise Failed(
                f"the password for Ceph cannot be read: {error}",
                reason="CEPH_CREDENTIALS",
                do="set WINDLASS_CEPH__PASSWORD or WINDLASS_CEPH__PASSWORD_FILE",
            ) from error


class Pace(Part):
    deploy: float = Field(4.0, description="seconds a simulated machine takes to deploy")
    boot: float = Field(0.6, description="from Deployed to an SSH server")
    cloud_init: float = Field(0.8, description="from the SSH server to a finished first boot")
    release: float = Field(1.0, description="to give a machine back")
    initialise: float = Field(3.0, description="kubeadm init")
    join: float = Field(1.5, description="kubeadm join")
    node_ready: float = Field(1.0, description="from a joined node to a Ready one")
    upgrade: float = Field(1.5, description="kubeadm upgrade of one node")


class SimulatedSite(Part):
    embedded: bool = Field(True, description="whether `windlass up` runs a simulated site")
    host: str = Field("127.0.0.1", description="where the simulated MAAS listens")
    port: int = Field(5240, description="where the simulated MAAS listens")
    machines: int = Field(24, description="how many machines it has")
    network: str = Field("127.41", description="the first half of its machines' addresses")
    pace: Pace = Pace()
    faults_file: Path | None = Field(None, description="a JSON list of faults to begin with")


class Limits(Part):
    """What callers may take of an API process."""

    connections: int = Field(4096, ge=8, description="gRPC connections at once, all together")
    connections_per_address: int = Field(
        1024, ge=1, description="gRPC connections at once of one address that is no trusted proxy"
    )
    connections_per_second: float = Field(
        500.0, gt=0, description="new connections of one address, gRPC and HTTP each"
    )
    handshake_seconds: float = Field(
        10.0, gt=0, description="what a connection gets for TLS and its first complete request"
    )
    streams_per_connection: int = Field(
        1000, ge=1, description="gRPC calls at once on one connection"
    )
    resets_per_second: float = Field(
        100.0, gt=0, description="calls that one connection may cancel, besides all open ones"
    )
    unfinished_mb: int = Field(
        64, ge=1, description="MiB of gRPC requests that are not complete, all together"
    )
    unfinished_mb_per_address: int = Field(
        24, ge=1, description="the same of one address, before anybody signs in there"
    )
    calls: int = Field(20_000, ge=1, description="calls at once, streams included")
    calls_per_user: int = Field(
        10_000, ge=1, description="of one user, or, where nobody signs in, of one address"
    )
    calls_before_sign_in: int = Field(
        500, ge=1, description="of one address, until their callers are known"
    )
    streams_per_user: int = Field(5_000, ge=1, description="open streams but agents' reports")
    reads_per_second: float = Field(20_000.0, gt=0, description="calls of one user that read")
    writes_per_second: float = Field(2_000.0, gt=0, description="and that change something")
    operations_per_user: int = Field(10_000, ge=1, description="running operations of one user")
    health_calls: int = Field(2_000, ge=1, description="health checks and watches at once")
    health_calls_per_address: int = Field(200, ge=1, description="the same of one address")
    http_connections: int = Field(2048, ge=8, description="HTTP connections at once")
    http_connections_per_address: int = Field(512, ge=1, description="the same of one address")
    http_head_seconds: float = Field(10.0, gt=0, description="for the head of a request")
    http_body_seconds: float = Field(60.0, gt=0, description="for the body of a request")
    http_idle_seconds: float = Field(5.0, ge=1, description="between two requests")
    http_answer_seconds: float = Field(
        30.0, gt=0, description="how long a caller may take nothing of an answer"
    )


class Auth(Part):
    mode: Literal["", "open", "required"] = Field(
        "", description="whether callers sign in; empty: unless all doors are on loopback"
    )
    open_beyond_loopback: bool = Field(
        False, description="said besides `open` where others reach us: they may do everything"
    )
    password_login: bool = Field(True, description="whether a password is good for a token")
    token_lifetime: timedelta = Field(
        timedelta(hours=12), le=timedelta(hours=26), description="how long a sign-in lasts"
    )
    token_idle: timedelta = Field(timedelta(hours=1), description="unused at most so long; 0: any")
    tokens_per_user: int = Field(
        500, ge=1, description="good tokens of one user; one more sign-in ends the oldest"
    )
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = Field(
        (),
        description="networks of the proxies that are believed about whom they call for "
        "(`x-forwarded-for`), on both doors; empty: none",
    )


class Tls(Part):
    certificate: Path | None = Field(None, description="PEM; none: nothing is encrypted")
    key: Path | None = Field(None, description="the certificate's key, PEM")
    client_ca: Path | None = Field(None, description="PEM; whose certificates gRPC asks for")
    client_crl: Path | None = Field(
        None,
        description="PEM or DER; which of them are revoked, read again when it changes. Tokens "
        "that were made by them end, too",
    )
    client_address: str = Field("", description="where it does so, besides; empty: everywhere")
    ca: Path | None = Field(None, description="PEM; whom API processes trust to be one another")
    peer_certificate: Path | None = Field(None, description="PEM; what they show one another")
    peer_key: Path | None = Field(None, description="that certificate's key, PEM")
    plain_beyond_loopback: bool = Field(False, description="what encrypts stands before us")
