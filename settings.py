"""The settings: one frozen model, read once by a composition root and passed on as arguments.

What is said later wins: the defaults here, then the file (`windlass.toml`, or what WINDLASS_FILE
names), then the environment (WINDLASS_GRPC_ADDRESS, WINDLASS_SITE__PORT), then flags."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from domain.cluster import DrainPolicy
from domain.errors import Invalid
from domain.instance import Restart
from domain.placement import Amounts
from domain.quarantine import FailedMachine
from systems import BELOW_STATE, HIDDEN, STATE, Ceph, Maas, Part, SimulatedSite
from systems import Auth as Auth
from systems import Limits as Limits
from systems import Temporal as Temporal
from systems import Tls as Tls

PREFIX = "WINDLASS_"


class Quarantine(Part):
    failures: int = Field(2, ge=1, description="a machine that failed so often is not taken")
    seconds: float = Field(604800.0, description="how long a failure of a machine is remembered")


class Repair(Part):
    most_unhealthy: float = Field(
        0.4, ge=0, le=1, description="beyond this share of a cluster no machine is restarted"
    )
    patience_seconds: float = Field(
        300.0, description="how long a node may be not Ready before it is mended"
    )
    again_seconds: float = Field(
        3600.0,
        description="how long a mended node is left alone by automatic repairs; "
        "twice as long after each further one",
    )
    most_again_seconds: float = Field(86400.0, description="at most so long")
    ready_seconds: float = Field(
        600.0, description="how long a restarted machine may take to be a Ready node"
    )


class Kaas(Part):
    domain: str = Field("windlass.test", description="endpoint names are made below this domain")
    resolve: bool = Field(
        False, description="whether endpoint names can be resolved here; if not, addresses are used"
    )
    network: Path | None = Field(
        None,
        description="the manifest of the pod network, YAML or JSON, for pods in 10.244.0.0/16; "
        "without one flannel, which is built in",
    )
    api_port: int = Field(6443, description="where API servers listen")
    ssh_port: int = Field(2222, description="where the SSH servers of deployed machines listen")
    workers_at_once: int = Field(8, description="workers of one cluster that are built at once")
    backups_kept: int = Field(
        5, ge=1, description="copies of one cluster that are kept; the oldest go"
    )
    drain_seconds: float = Field(
        600.0, description="how long pods may take to leave a node that is taken away or upgraded"
    )
    drain_policy: DrainPolicy = Field(
        DrainPolicy.PROCEED,
        description="what becomes of a node whose pods have not left by then: proceed takes it "
        "away or upgrades it all the same, strict leaves it as it is",
    )
    approval_seconds: float = Field(
        86_400.0,
        description="how long an operation waits to be approved; then it is called off",
    )
    upgrade_at_once: int = Field(
        1, ge=1, description="workers of one pool that are upgraded at the same time"
    )
    look_seconds: float = Field(15.0, description="between two looks at a cluster that stands")
    tour_seconds: float = Field(
        300.0, le=600, description="between two times that a cluster without news is said to be so"
    )
    inspect_seconds: float = Field(
        300.0, description="between two times that its control planes are logged into"
    )
    silent_seconds: float = Field(
        120.0, description="how long an API may give no answer before its cluster is in ERROR"
    )
    expiry_days: float = Field(
        30.0, description="how long before a certificate expires the cluster's message says so"
    )
    failed_machine: FailedMachine = Field(
        FailedMachine.RELEASE,
        description="what becomes of a machine that did not deploy: release or mark_broken",
    )
    quarantine: Quarantine = Quarantine()
    repair: Repair = Repair()
    control_planes: tuple[int, ...] = Field((1, 3, 5), description="control-plane sizes allowed")
    machines_per_pool: int = Field(500, description="the most machines one pool may ask for")
    machines_per_cluster: int = Field(1000, description="the most machines one cluster may have")


def _usual(what: str) -> Any:
    return Field(None, description=f"what a resource manager gets to {what}")


class Timeouts(Part):
    profile: Literal["usual", "short"] = Field("usual", description="those that are not set are so")
    clusterinst_create: timedelta | None = _usual("make a cluster: 30 min, or 3 s")
    clusterinst_update: timedelta | None = _usual("change a cluster: 20 min, or 2 s")
    clusterinst_delete: timedelta | None = _usual("delete a cluster: 20 min, or 2 s")
    appinst_create: timedelta | None = _usual("make an app's instance: 30 min, or 3 s")
    appinst_delete: timedelta | None = _usual("delete an app's instance: 20 min, or 2 s")
    autodelete_retry: timedelta | None = _usual("end what it is busy with: 0.5 s a try, or 0.1 s")


class Edge(Part):
    legacy_codes: bool = Field(
        False, description="whether refusals leave as UNKNOWN, as the first controller's did"
    )
    strict_references: bool = Field(
        False,
        description="whether a cloudlet needs its operator to exist, and apps and instances "
        "their developer",
    )
    lax_masks: bool = Field(
        False, description="whether paths in `fields` that lead nowhere are ignored"
    )
    allow_app_change_in_use: bool = Field(False, description="whether apps in use may be changed")
    enforce_resources: bool = Field(False, description="whether a cloudlet can be full")
    timeouts: Timeouts = Timeouts()
    developer_records: int = Field(
        10_000, ge=1, description="apps, clusters and instances of one developer, together"
    )
    developer_mb: int = Field(64, ge=1, description="what they may take, in MiB")
    image_host: str = Field(
        "docker.mobiledgex.net", description="where images lie of apps that name none"
    )
    fetch_allow: tuple[str, ...] = Field(
        (), description="what URLs begin with that the API may fetch for apps; empty: none"
    )
    external_address: str = Field(
        "", description="where other API processes reach this one; empty: where it serves gRPC"
    )
    notify_address: str = Field(
        "",
        description="where notify listens besides, and nothing else does; empty: nowhere",
    )
    controller_lease: timedelta = Field(
        timedelta(seconds=20),
        description="how long an API process counts as alive that is not heard of",
    )
    node_patience: timedelta = Field(
        timedelta(seconds=3), description="what each API process gets to tell its nodes"
    )
    exec_patience: timedelta = Field(
        timedelta(seconds=6), description="what a resource manager gets to answer a command"
    )


class Pods(Part):
    kept: timedelta = Field(
        timedelta(hours=24),
        description="how long pods that are gone are remembered, with their logs and all events",
    )
    log_mb: int = Field(16, ge=1, description="how much is kept of what one app writes, in MB")


class Agent(Part):
    embedded: int = Field(3, ge=0, description="how many nodes `windlass up` runs")
    node: str = Field("", description="the node's id; empty: this machine's name")
    runtime: Literal["auto", "podman", "process", "simulated"] = Field(
        "auto",
        description="what carries pods. auto: podman, and below `windlass up` process where podman "
        "does not work; process isolates nothing and is no place for tenants",
    )
    process_fallback: bool = Field(
        False, description="whether auto may be process; `windlass up` sets it for its nodes"
    )
    process_commands: bool = Field(
        False,
        description="development alone: process takes commands, exec and any environment, so that "
        "who creates instances runs anything on this machine",
    )
    control: str = Field(
        "127.0.0.1:9020",
        description="where the control plane serves gRPC; several addresses with commas between "
        "them: where one is away the next is called",
    )
    listen: str = Field("127.0.0.1:50053", description="where the agent serves gRPC")
    address: str = Field("", description="where it is reached; empty: where it listens")
    certificate_file: Path | None = Field(None, description="PEM; none: its id is its token")
    key_file: Path | None = Field(None, description="its key; with both the agent speaks TLS alone")
    plaintext: bool = Field(False, description="listen beyond this machine without encryption")
    pool: str = Field("", description="the pool that the node belongs to")
    labels: dict[str, str] = Field({}, description="what instances can ask of a node")
    cpu: int = Field(0, description="thousandths of a core that it offers; 0: all")
    memory_mb: int = Field(0, description="memory that it offers; 0: all")
    disk_gb: int = Field(0, description="disk that it offers; 0: all")
    grace_seconds: float = Field(10.0, le=25, description="between SIGTERM and SIGKILL")
    linger_seconds: float = Field(
        60.0, description="how long what ended by itself is kept whole, unless it is run again"
    )
    image_hours: float = Field(24.0, description="how long images are kept that nobody asks for")
    serves_anybody: bool = Field(False, description="take any caller, as original schedulers need")


class Nodes(Part):
    subnets: str = Field("10.64.0.0/12", description="the network that nodes get their /24 from")
    quarantine_seconds: float = Field(300.0, description="how long a subnet rests that was left")
    suspect_seconds: float = Field(5.0, description="a node that is silent so long is suspect")
    lost_seconds: float = Field(15.0, description="and so long lost: its work is done elsewhere")
    ceiling: float = Field(0.95, gt=0, le=1, description="the share of a node that may be taken")
    ceilings: dict[str, float] = Field({}, description="the same by pool, where it is another")
    over_kept: timedelta = Field(
        timedelta(days=7),
        description="how long instances that are over are remembered, with their journals; an hour "
        "longer than `pods.kept` at least",
    )
    over_most: int = Field(
        100_000, ge=0, description="and how many; beyond that the oldest go sooner"
    )
    largest_cpu: int = Field(512_000, ge=1, description="thousandths of a core it counts with")
    largest_memory_mb: int = Field(8_000_000, ge=1, description="and memory")
    largest_disk_gb: int = Field(1_000_000, ge=1, description="and disk")
    per_user: int = Field(
        256, ge=1, description="nodes that one user's tokens may register which name no single node"
    )
    local: bool = Field(
        False,
        description="whether agents may be on the API's own machine; `windlass up` sets it",
    )
    agent_port: int = Field(50053, description="where an agent is asked that does not say where")
    bare_tokens: bool = Field(
        True, description="whether nodes may register without a certificate whose key they prove"
    )
    restart: Restart = Field(Restart.NEVER, description="when instances of kudo are run again")
    stop_removes: bool = Field(False, description="whether Stop removes, as it first did")
    also_listen: str = Field(
        "",
        description="one more address of the gRPC API; empty: none, or the socket that systemd "
        "passes",
    )

    @property
    def largest(self) -> Amounts:
        return Amounts(
            cpu=self.largest_cpu, memory=self.largest_memory_mb, disk=self.largest_disk_gb
        )


class Worker(Part):
    metrics_port: int = Field(9464, description="Temporal's own metrics of the worker; 0: any")
    metrics_host: str = Field("127.0.0.1", description="where metrics are served")
    graceful_seconds: float = Field(
        30.0, description="what a hand gets to end by itself on SIGTERM"
    )
    cached_workflows: int = Field(1000, description="workflows kept in memory")
    slots: dict[str, int] = Field(
        {
            "machines": 200,
            "endpoints": 20,
            "kubeadm": 100,
            "kubernetes": 50,
            "storage": 20,
            "watching": 2000,
            "instances": 20_000,
            "workflows": 100,
        },
        description="how many activities (or workflow tasks) of a queue run at once, per process",
    )
    deployment: str = Field("windlass", description="the worker deployment's name")
    build_id: str = Field("", description="its version; empty: unversioned")


class Settings(BaseSettings):
    """Everything that can be set."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        frozen=True,
        extra="forbid",
        toml_file=os.environ.get(f"{PREFIX}FILE", "windlass.toml"),
    )

    state: Path = Field(
        Path(STATE), description="where state is kept that is not told to be elsewhere"
    )
    database: str = Field(
        BELOW_STATE["database"].format(STATE),
        description="sqlite+aiosqlite:///PATH or postgresql+asyncpg://USER:PASSWORD@HOST/NAME; "
        "below `state` unless it is set",
    )
    database_connections: int = Field(8, description="connections to the database, per process")
    key_file: Path = Field(
        Path(BELOW_STATE["key_file"].format(STATE)),
        description="what secrets are sealed with; below `state` unless it is set",
    )
    key_command: tuple[str, ...] = Field(
        (),
        description="a command and its arguments that prints the keys instead, NAME BASE64 a line; "
        "empty: the key file has them",
        json_schema_extra={HIDDEN: True},
    )
    backups: Path = Field(
        Path(BELOW_STATE["backups"].format(STATE)),
        description="where copies of clusters are kept, sealed; below `state` unless it is set",
    )
    catalogue: Path | None = Field(
        None,
        description="a TOML file with the Kubernetes releases on offer (see above); without one "
        "those that are built in",
    )
    grpc_address: str = Field("127.0.0.1:9020", description="where the gRPC API listens")
    http_address: str = Field("127.0.0.1:8282", description="where the HTTP door listens")
    request_id_window: timedelta = Field(
        timedelta(hours=24), description="how long a request id is remembered"
    )
    operations_kept: timedelta = Field(
        timedelta(days=90),
        description="how long an operation that has ended is remembered, with its journal",
    )
    clusters_kept: timedelta = Field(
        timedelta(days=90), description="how long clusters that are gone are remembered"
    )
    log_format: Literal["json", "text"] = Field("text", description="how log lines are written")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="what is written to the log"
    )
    reflection: bool = Field(True, description="whether the API describes itself to grpcurl & co.")
    rest: bool = Field(True, description="whether clusters and the edge are served over REST too")
    cors_origins: tuple[str, ...] = Field((), description="whose pages may call; exact origins")
    hosts: tuple[str, ...] = Field(
        (),
        description="names, with or without a port, that the HTTP API is called by besides "
        "localhost and addresses; pages of these may call",
    )
    auth: Auth = Auth()
    tls: Tls = Tls()
    limits: Limits = Limits()
    temporal: Temporal = Temporal()
    kaas: Kaas = Kaas()
    edge: Edge = Edge()
    nodes: Nodes = Nodes()
    pods: Pods = Pods()
    agent: Agent = Agent()
    maas: Maas = Maas()
    ceph: Ceph = Ceph()
    site: SimulatedSite = SimulatedSite()
    worker: Worker = Worker()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 (the library's signature)
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @model_validator(mode="before")
    @classmethod
    def _kept_below_state(cls, said: dict[str, Any]) -> dict[str, Any]:
        """Whoever moves `state` moves all that is kept in files, but for what was given a place."""
        state = Path(str(said.get("state", STATE)))
        for name, place in BELOW_STATE.items():
            *group, field = name.split(".")
            inside = said.get(group[0], {}) if group else said
            if isinstance(inside, dict):  # one that was made elsewhere says all of it
                inside = {field: place.format(state), **inside}
            said = {**said, group[0]: inside} if group else inside
        return said


def read() -> Settings:
    """The settings as they are here. Invalid says what is wrong with them, a line for each of it
    and never a value: that may be a secret."""
    try:
        return Settings()
    except ValidationError as error:
        wrong = [
            f"{'.'.join(map(str, each['loc']))}: {each['msg']}"
            for each in error.errors(include_input=False)
        ]
    except ValueError as error:  # a file or a variable that cannot be parsed
        wrong = [str(error)]
    said = "\n  ".join(["the settings are not valid", *wrong])
    raise Invalid(said, do="correct them in windlass.toml or WINDLASS_…")
