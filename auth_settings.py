"""Settings of who is let in, and of how that is encrypted: a part of `settings.py`."""

from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Literal

from pydantic import Field

from systems import Part


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
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = Field(
        (),
        description="networks of the proxies that are believed about whom they call for "
        "(`x-forwarded-for`), on both doors; empty: none",
    )


class Tls(Part):
    certificate: Path | None = Field(None, description="PEM; none: nothing is encrypted")
    key: Path | None = Field(None, description="the certificate's key, PEM")
    client_ca: Path | None = Field(None, description="PEM; whose certificates gRPC asks for")
    client_address: str = Field("", description="where it does so, besides; empty: everywhere")
    ca: Path | None = Field(None, description="PEM; whom API processes trust to be one another")
    peer_certificate: Path | None = Field(None, description="PEM; what they show one another")
    peer_key: Path | None = Field(None, description="that certificate's key, PEM")
    plain_beyond_loopback: bool = Field(False, description="what encrypts stands before us")
