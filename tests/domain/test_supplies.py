"""Machines that live without the internet."""

import json
from typing import Any

import pytest
import yaml

from domain import kubeadm_config
from domain.cloud_init import user_data
from domain.machine import Machine
from domain.supplies import Supplies
from sim.metal import Installed
from systems import Supply
from tests.domain.test_cloud_init import slot
from tests.metal import metal, until

KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\nabc\n-----END PGP PUBLIC KEY BLOCK-----\n"
PRIVATE = Supplies(
    image_repository="mirror.example:5000/k8s",
    mirrors={"docker.io": "https://mirror.example:5000"},
    package_source="deb https://mirror.example/kubernetes/$MINOR ./",
    package_key=KEY,
    proxy="http://proxy.example:3128",
    no_proxy=("mirror.example",),
    authorities="-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n",
)


def config(supplies: Supplies | None = None) -> dict[str, Any]:
    found = yaml.safe_load(user_data(slot(), supplies))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("version", "image"),
    [
        ("1.29.9", "registry.k8s.io/pause:3.9"),
        ("1.32.4", "registry.k8s.io/pause:3.10"),
        ("1.34.1", "registry.k8s.io/pause:3.10.1"),
    ],
)
def test_the_sandbox_image_is_the_one_that_kubeadm_pulls(version: str, image: str) -> None:
    assert Supplies().sandbox(version) == image
    assert PRIVATE.sandbox(version) == image.replace("registry.k8s.io", "mirror.example:5000/k8s")
    assert Supplies(sandbox_image="own/pause:1").sandbox(version) == "own/pause:1"


def test_nothing_more_is_said_where_the_world_is_used() -> None:
    plain = config()
    assert plain.keys().isdisjoint({"apt", "ca_certs"})
    assert not [file for file in plain["write_files"] if "certs.d" in file["path"]]


def test_machines_are_told_of_mirrors_packages_proxies_and_authorities() -> None:
    found = config(PRIVATE)
    minor = slot().release.version.rpartition(".")[0]
    assert found["apt"] == {
        "sources": {
            "windlass": {"source": f"deb https://mirror.example/kubernetes/{minor} ./", "key": KEY}
        },
        "http_proxy": PRIVATE.proxy,
        "https_proxy": PRIVATE.proxy,
    }
    assert found["ca_certs"] == {"trusted": [PRIVATE.authorities]}
    files = {file["path"]: file["content"] for file in found["write_files"]}
    assert (
        '[host."https://mirror.example:5000"]'
        in files["/etc/containerd/certs.d/docker.io/hosts.toml"]
    )
    proxied = files["/etc/systemd/system/containerd.service.d/windlass.conf"]
    assert "HTTPS_PROXY=http://proxy.example:3128" in proxied
    assert "10.0.0.0/8" in proxied
    assert "mirror.example" in proxied


@pytest.mark.parametrize("supplies", [Supplies(), PRIVATE], ids=["world", "private"])
async def test_containerd_finds_plugins_and_sandboxes(supplies: Supplies) -> None:
    """M3 and M4: Debian 13's own configuration looks for plugins in /usr/lib/cni."""
    async with metal() as site:
        machine = site.machine("cp-1")
        await site.hosts.boot(
            Installed(
                system_id=machine.system_id,
                hostname=machine.hostname,
                address=machine.address,
                series="jammy",
                user_data=user_data(machine.slot, supplies),
            )
        )
        host = site.host(machine)
        await until(lambda: host.state.settled)
        assert host.state.cloud_init_error == ""
        written = host.disk.read("/etc/containerd/config.toml").decode()
        assert 'bin_dir = "/opt/cni/bin"' in written
        assert "SystemdCgroup = true" in written
        assert f'sandbox_image = "{supplies.sandbox(machine.slot.release.version)}"' in written
        assert ('config_path = "/etc/containerd/certs.d"' in written) == bool(supplies.mirrors)


def test_kubeadm_takes_images_from_the_same_place() -> None:
    machine = Machine(slot=slot(), system_id="a", hostname="a", address="10.0.0.9")
    for text in (
        kubeadm_config.initialising(machine, "hello.test", 6443, "mirror.example/k8s"),
        kubeadm_config.checking(machine, 6443, "mirror.example/k8s"),
    ):
        [cluster] = [
            each
            for each in map(json.loads, text.split("---\n"))
            if each["kind"] == "ClusterConfiguration"
        ]
        assert cluster["imageRepository"] == "mirror.example/k8s"
    assert "imageRepository" not in kubeadm_config.initialising(machine, "hello.test", 6443)


def test_a_proxy_with_a_password_is_refused() -> None:
    with pytest.raises(ValueError, match="proxy"):
        Supply(proxy="http://me:secret@proxy:3128")
