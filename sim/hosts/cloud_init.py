"""Reading the user data a machine was deployed with, as cloud-init does at the first boot."""

import shlex
from typing import Any

import yaml

from sim.hosts.disk import ROOT, Disk
from sim.hosts.host import FirstBoot

DEFAULT_USER = "ubuntu"


def read(user_data: str) -> FirstBoot:
    """What the user data asks for. What cannot be read asks for nothing, and says why."""
    if not user_data.strip():
        return FirstBoot()
    if user_data.startswith("#!"):
        return FirstBoot(commands=(user_data,))
    if not user_data.startswith("#cloud-config"):
        return FirstBoot(fault="unhandled non-multipart (text/x-not-multipart) user data")
    try:
        config = yaml.safe_load(user_data)
    except yaml.YAMLError as error:
        return FirstBoot(fault=f"failed loading yaml blob: {error}")
    if not isinstance(config, dict):
        return FirstBoot(fault="the cloud config is no mapping")
    return FirstBoot(
        hostname=str(config.get("hostname") or ""),
        users=_users(config),
        files=tuple(_file(entry) for entry in config.get("write_files") or ()),
        packages=tuple(_package(entry) for entry in config.get("packages") or ()),
        commands=tuple(_command(entry) for entry in config.get("runcmd") or ()),
    )


def lay_out(boot: FirstBoot, disk: Disk) -> None:
    """Homes, keys and files, as they are before anybody can log in."""
    for user, keys in boot.users.items():
        home = f"/home/{user}"
        disk.make_directories(home, ROOT, 0o750)
        disk.change(home, ROOT, owner=user)
        disk.make_directory(f"{home}/.ssh", user, 0o700)
        text = "".join(f"{key.strip()}\n" for key in keys)
        disk.write(f"{home}/.ssh/authorized_keys", text.encode(), user, mode=0o600)
    for path, content, mode, owner in boot.files:
        disk.make_directories(path.rpartition("/")[0] or "/")
        disk.write(path, content.encode())
        disk.change(path, mode=mode, owner=owner)


def _users(config: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    everyones = tuple(config.get("ssh_authorized_keys") or ())
    users: dict[str, tuple[str, ...]] = {}
    for entry in config.get("users", ["default"]):
        if entry == "default":
            users[DEFAULT_USER] = everyones
        elif isinstance(entry, dict) and "name" in entry:
            users[str(entry["name"])] = tuple(entry.get("ssh_authorized_keys") or ())
    return users


def _file(entry: dict[str, Any]) -> tuple[str, str, int, str]:
    mode = int(str(entry.get("permissions", "0644")), 8)
    owner = str(entry.get("owner", ROOT)).partition(":")[0]
    return str(entry["path"]), str(entry.get("content", "")), mode, owner


def _package(entry: str | list[str]) -> str:
    return entry if isinstance(entry, str) else "=".join(entry)


def _command(entry: str | list[str]) -> str:
    """A list is run as it is, a string by a shell: here both are a line for one."""
    if isinstance(entry, str):
        return entry
    return shlex.join(str(word) for word in entry)
