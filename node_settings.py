"""Settings of nodes and of the agents on them: a part of `settings.py`."""

from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import Field

from domain.instance import Restart
from systems import Part


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
    control: str = Field("127.0.0.1:9020", description="where the control plane serves gRPC")
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
    linger_seconds: float = Field(60.0, description="how long what ended by itself is kept whole")
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
