"""Ceph, through its manager's REST API, and through its own program where that has no words."""

from clients.ceph.identities import RestIdentities
from clients.ceph.mons import ProgramMons
from clients.ceph.program import ProgramIdentities, identities
from clients.ceph.session import Session
from clients.ceph.storage import CephStorage
from clients.ceph.upgrades import RestUpgrades

__all__ = [
    "CephStorage",
    "ProgramIdentities",
    "ProgramMons",
    "RestIdentities",
    "RestUpgrades",
    "Session",
    "identities",
]
