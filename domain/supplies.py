"""Where machines get packages and images from, if not from where the world gets them.

Nothing in here is secret: it is written into user data, which lies readable in MAAS."""

from collections.abc import Mapping
from typing import Any

from domain.frozen import Frozen
from domain.releases import Version

REGISTRY = "registry.k8s.io"
"""Where kubeadm takes images from unless it is told otherwise."""

_PAUSES = {26: "3.9", 31: "3.10", 34: "3.10.1"}
"""The sandbox image that kubeadm pulls, since which minor version."""

_CERTS = "/etc/containerd/certs.d"
_BINARIES = "/opt/cni/bin"
"""Where the network's plugins are put, and those of the package kubernetes-cni. Some distributions
have containerd look elsewhere."""

_QUIET = ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", ".svc", ".cluster.local")
"""What is never asked of a proxy."""


class Supplies(Frozen):
    """What machines use in a place of its own. Empty: what the world uses."""

    image_repository: str = ""
    """For Kubernetes' own images, in place of registry.k8s.io."""
    sandbox_image: str = ""
    """The image that holds a pod's namespaces; else the one that goes with the version."""
    mirrors: Mapping[str, str] = {}
    """By registry, the URL that is asked first."""
    package_source: str = ""
    """A line of apt's sources; $MINOR in it is the minor version, such as 1.32."""
    package_key: str = ""
    """The key that it is signed with, armoured."""
    proxy: str = ""
    no_proxy: tuple[str, ...] = ()
    authorities: str = ""
    """Certificates that machines trust besides their own, PEM."""

    def sandbox(self, version: str) -> str:
        """The sandbox image for that version of Kubernetes."""
        minor = Version.parse(version).minor
        tag = max((since, tag) for since, tag in _PAUSES.items() if since <= max(minor, 26))[1]
        return self.sandbox_image or f"{self.image_repository or REGISTRY}/pause:{tag}"

    def containerd(self, version: str) -> str:
        """A shell's line that writes containerd's configuration, out of its own default. Versions
        1 and 2 of containerd call things by different names."""
        sandbox = self.sandbox(version)
        edits = (  # the kubelet leaves control groups to systemd, so the runtime must too
            "s/SystemdCgroup = false/SystemdCgroup = true/",
            f's|sandbox_image = .*|sandbox_image = "{sandbox}"|',
            f's|  sandbox = .*|  sandbox = "{sandbox}"|',
            f's|bin_dir = .*|bin_dir = "{_BINARIES}"|',
            f's|bin_dirs = .*|bin_dirs = ["{_BINARIES}"]|',
            *((f's|config_path = .*|config_path = "{_CERTS}"|',) if self.mirrors else ()),
        )
        chosen = " ".join(f"-e '{edit}'" for edit in edits)
        return f"containerd config default | sed {chosen} > /etc/containerd/config.toml"

    def files(self) -> dict[str, str]:
        """Files that machines need for it, by path."""
        files = {
            f"{_CERTS}/{registry}/hosts.toml": f'[host."{url}"]\n'
            '  capabilities = ["pull", "resolve"]\n'
            for registry, url in sorted(self.mirrors.items())
        }
        if self.proxy:
            quiet = ",".join((*_QUIET, *self.no_proxy))
            files["/etc/systemd/system/containerd.service.d/windlass.conf"] = (
                "[Service]\n"
                f'Environment="HTTP_PROXY={self.proxy}" "HTTPS_PROXY={self.proxy}" '
                f'"NO_PROXY={quiet}"\n'
            )
        return files

    def cloud_config(self, version: str) -> dict[str, Any]:
        """What cloud-init itself sets up for it."""
        parsed = Version.parse(version)
        config: dict[str, Any] = {}
        apt: dict[str, Any] = {}
        if self.package_source:
            source = self.package_source.replace("$MINOR", f"{parsed.major}.{parsed.minor}")
            key = {"key": self.package_key} if self.package_key else {}
            apt["sources"] = {"windlass": {"source": source, **key}}
        if self.proxy:
            apt |= {"http_proxy": self.proxy, "https_proxy": self.proxy}
        if apt:
            config["apt"] = apt
        if self.authorities:
            config["ca_certs"] = {"trusted": [self.authorities]}
        return config
