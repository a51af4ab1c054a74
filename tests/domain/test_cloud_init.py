"""What machines are told at their first boot: all they need, and no secret."""

import json

import pytest
import yaml

from domain.cloud_init import LOGIN, user_data
from domain.machine import Label, Role, Slot
from domain.releases import CATALOGUE, Release

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDrFTz windlass"


def slot(release: Release = CATALOGUE.releases[0]) -> Slot:
    return Slot(
        cluster_uid="1f6f6f2c9d5e4a7b",
        cluster="hello",
        name="workers-x7k2p",
        role=Role.WORKER,
        pool="workers",
        instance_type="gpu",
        labels=(Label(name="colour", value="blue"),),
        release=release,
        public_key=KEY,
    )


def test_it_is_cloud_config_both_as_yaml_and_as_json() -> None:
    first, _, rest = user_data(slot()).partition("\n")
    assert first == "#cloud-config"
    assert yaml.safe_load(rest) == json.loads(rest)


def test_the_same_slot_gives_the_same_text() -> None:
    assert user_data(slot()) == user_data(slot())


def test_one_may_log_in_with_the_slots_key_and_nothing_else() -> None:
    config = yaml.safe_load(user_data(slot()))
    (user,) = config["users"]
    assert user["name"] == LOGIN == "windlass"
    assert user["ssh_authorized_keys"] == [KEY]
    assert user["sudo"] == "ALL=(ALL) NOPASSWD:ALL"
    assert user["lock_passwd"] is True
    assert config["ssh_pwauth"] is False
    assert config["disable_root"] is True


@pytest.mark.parametrize("release", CATALOGUE.releases, ids=lambda release: release.version)
def test_the_slots_release_is_pinned_and_held(release: Release) -> None:
    config = yaml.safe_load(user_data(slot(release)))
    pinned = [package for package in config["packages"] if isinstance(package, list)]
    assert pinned == [[name, f"{release.version}-*"] for name in ("kubeadm", "kubelet", "kubectl")]
    assert ["apt-mark", "hold", "kubeadm", "kubelet", "kubectl"] in config["runcmd"]


def test_what_kubeadm_checks_first_is_seen_to() -> None:
    config = yaml.safe_load(user_data(slot()))
    files = {file["path"]: file["content"] for file in config["write_files"]}
    assert files["/etc/modules-load.d/windlass.conf"].split() == ["br_netfilter", "overlay"]
    assert "net.ipv4.ip_forward = 1\n" in files["/etc/sysctl.d/90-windlass.conf"]
    assert "DPkg::Lock::Timeout" in files["/etc/apt/apt.conf.d/90windlass"]
    assert config["swap"] == {"size": 0}
    assert ["swapoff", "--all"] in config["runcmd"]
    assert "containerd" in config["packages"]
    assert any("SystemdCgroup = true" in str(command) for command in config["runcmd"])
    assert config["hostname"] == "workers-x7k2p"


def test_it_fits_where_cloud_init_keeps_it() -> None:
    assert len(user_data(slot())) < 16 * 1024
