"""Faults with names: the ways in which real sites are known to go wrong, one for each.

`python -m sim --fault NAME` plans them. What a name leaves open is said behind it:
`--fault slow-hosts,seconds=2,where=ssh exec abc123 *`. What has no name is a fault written out in
JSON, as `POST /site/faults` takes it."""

from pydantic import ValidationError

from domain.errors import Invalid
from sim.faults import Fault, How

ALWAYS = 1_000_000
"""Until the fault is called off."""

_FULL = 'No available machine matches constraints: [(\'agent_name\', ["them"])] (resolved to "")'

TROUBLES: dict[str, Fault] = {
    "api-flaps": Fault(where="kubernetes * *", how=How.FLAP, times=ALWAYS),
    "ceph-deaf": Fault(where="ceph mons", how=How.FAIL, times=ALWAYS),
    "ceph-image-away": Fault(where="ceph pull", how=How.FAIL, times=ALWAYS),
    "ceph-manager-away": Fault(where="ceph [GPD]*", how=How.DROP, times=ALWAYS),
    "ceph-moves-nothing": Fault(where="ceph move", how=How.FAIL, times=ALWAYS),
    "ceph-osd-dead": Fault(where="ceph osd.0", how=How.FAIL, times=ALWAYS),
    "ceph-upgrade-stalls": Fault(where="ceph upgrade", how=How.FAIL, times=ALWAYS),
    "certificates-expire": Fault(where="certificates *", how=How.EXPIRE),
    "cloud-init-fails": Fault(where="cloud-init *", how=How.FAIL, message="no package repository"),
    "cloud-init-lasts": Fault(where="cloud-init *", how=How.SLOW, seconds=60),
    "crm-create-fails": Fault(where="crm create *", how=How.FAIL, times=ALWAYS),
    "crm-delete-fails": Fault(where="crm delete *", how=How.FAIL, times=ALWAYS),
    "crm-drops": Fault(where="crm create *", how=How.DROP, times=ALWAYS),
    "crm-restarts": Fault(where="crm create *", how=How.REBOOT),
    "crm-silent": Fault(where="crm hear *", how=How.HANG, times=ALWAYS),
    "crm-slow": Fault(where="crm [!h]*", how=How.SLOW, seconds=10, times=ALWAYS),
    "crm-update-fails": Fault(where="crm update *", how=How.FAIL, times=ALWAYS),
    "disk-full": Fault(where="disk *", how=How.REFUSE, times=ALWAYS),
    "dpkg-locked": Fault(where="dpkg *", how=How.SLOW, seconds=60),
    "etcd-member-down": Fault(where="etcd *", how=How.REFUSE, times=ALWAYS),
    "eviction-refused": Fault(
        where="kubernetes * POST *eviction",
        how=How.REFUSE,
        status=429,
        message="Cannot evict pod as it would violate the pod's disruption budget.",
        times=ALWAYS,
    ),
    "join-reboots": Fault(where="kubeadm * join", how=How.REBOOT, line=2),
    "maas-busy": Fault(
        where="maas POST *", how=How.REFUSE, status=503, retry_after=10, message="Unable to connect"
    ),
    "maas-collides": Fault(
        where="maas POST *", how=How.REFUSE, status=409, retry_after=5, message="Conflict error."
    ),
    "maas-full": Fault(
        where="maas POST machines/*op=allocate", how=How.REFUSE, status=409, message=_FULL
    ),
    "maas-times-out": Fault(where="maas *", how=How.REFUSE, status=504, message="Gateway timeout"),
    "slow-hosts": Fault(where="ssh *", how=How.SLOW, seconds=0.5, times=ALWAYS),
    "sshd-late": Fault(where="boot *", how=How.SLOW, seconds=60),
    "tokens-expire": Fault(where="token *", how=How.EXPIRE),
}


def fault(text: str) -> Fault:
    """The fault that is meant. Invalid if there is none of that name, or it is not put right."""
    try:
        if text.startswith("{"):
            return Fault.model_validate_json(text)
        name, *others = text.split(",")
        changes = dict(part.split("=", 1) for part in others)
        return Fault.model_validate(TROUBLES[name].model_dump() | changes)
    except KeyError as error:
        raise Invalid(
            f"no fault is called {error}", do=f"use one of {', '.join(TROUBLES)}"
        ) from None
    except (ValidationError, ValueError) as error:
        raise Invalid(
            f"{text} is no fault: {error}",
            do="write NAME, NAME,field=value,... or a fault in JSON",
        ) from None
