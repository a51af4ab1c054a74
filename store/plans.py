"""Plans: what an order becomes when it is accepted, with every slot named, and what cannot become
one."""

import secrets
from uuid import uuid4

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from domain import naming
from domain.cluster import ClusterOrder, ClusterPlan, PoolOrder, slots_of
from domain.errors import Invalid, Violation
from domain.machine import Role, Slot
from domain.operation import Ask, Kind, Stage
from domain.releases import Release
from domain.share import decided, refuse_to_choose
from domain.wishes import KEEP, settles
from store.rows import OperationRow

LARGEST_PLAN = 1024 * 1024
"""Bytes. A workflow is told its plan in one piece, as text within text, and Temporal takes no piece
of more than 2 MiB: the operation would be accepted and could never be begun."""


def draw(
    order: ClusterOrder, release: Release, *, domain: str, workers_at_once: int
) -> tuple[ClusterPlan, bytes]:
    """A plan, and the private key by which its hosts will be logged into. Names are drawn here,
    once, so that no retry can draw another."""
    private, public = _login_key()
    uid, taken = str(uuid4()), set[str]()
    slots = []
    for role, pool in slots_of(order):
        stem = naming.CONTROL_PLANE if role is Role.CONTROL_PLANE else pool.name
        slots.append(
            Slot(
                cluster_uid=uid,
                cluster=order.name,
                name=_free_name(stem, taken),
                role=role,
                pool=stem,
                instance_type=pool.instance_type,
                labels=pool.labels,
                release=release,
                public_key=public,
            )
        )
    plan = ClusterPlan(
        uid=uid,
        name=order.name,
        release=release,
        endpoint=f"{order.name}.{domain}",
        control_plane=tuple(slot for slot in slots if slot.role is Role.CONTROL_PLANE),
        workers=tuple(slot for slot in slots if slot.role is Role.WORKER),
        workers_at_once=workers_at_once,
    )
    refuse_what_is_too_large(plan)
    return plan, private


def worker(like: Slot, pool: PoolOrder, taken: set[str]) -> Slot:
    """Another worker for a cluster that has the slot `like`, under a name that is free."""
    return like.model_copy(
        update={
            "name": _free_name(pool.name, taken),
            "role": Role.WORKER,
            "pool": pool.name,
            "instance_type": pool.instance_type,
            "labels": pool.labels,
        }
    )


def _free_name(stem: str, taken: set[str]) -> str:
    """A name that nobody has, which is taken from now on."""
    while (name := f"{stem}-{_suffix()}") in taken:
        continue
    taken.add(name)
    return name


def refuse_what_is_too_large(plan: ClusterPlan) -> None:
    """Many machines with few labels fit, and so do few with many: every slot repeats its own."""
    size = len(plan.model_dump_json())
    if size > LARGEST_PLAN:
        description = f"this needs a plan of {size} bytes, and at most {LARGEST_PLAN} are possible"
        raise Invalid(
            f"worker_node_pools: {description}",
            subject=plan.name,
            do="ask for fewer machines, or give their pools fewer or shorter labels",
            violations=[Violation(field="worker_node_pools", description=description)],
        )


def refuse_otherwise(delete: OperationRow, ask: Ask) -> None:
    """Refuse to join a delete that does something else with the data than is wished."""
    plan = ClusterPlan.model_validate_json(delete.plan)
    if ask.data:
        refuse_to_choose(plan.name, plan.storage, settled=settles(ask, plan.name))
    if plan.storage and ask.data and plan.keeps_data is not (ask.data == KEEP):
        raise decided(plan.name, plan.storage, keeps=plan.keeps_data)


def refuse_to_promise(running: OperationRow, ask: Ask) -> None:
    """Refuse to keep data that goes when this operation is pushed aside: a creation undoes itself,
    and a delete may have deleted it already."""
    if ask.data != KEEP or running.ended is not None or running.stage == Stage.REQUESTED:
        return
    plan = ClusterPlan.model_validate_json(running.plan)
    goes = running.kind in (Kind.CREATE_CLUSTER, Kind.DELETE_CLUSTER) and not plan.keeps_data
    if plan.storage and goes:
        raise decided(plan.name, plan.storage, keeps=False)


def _login_key() -> tuple[bytes, str]:
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return private, public.decode()


def _suffix() -> str:
    return "".join(secrets.choice(naming.SUFFIX_ALPHABET) for _ in range(naming.SUFFIX_LENGTH))
