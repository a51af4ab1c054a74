from domain.errors import Failed, Failure, Overdue, Unavailable
from domain.quarantine import is_to_blame


def test_a_machine_is_blamed_for_what_only_it_can_have_done() -> None:
    for error in (
        Failed("Failed deployment", reason="MACHINE_SPOILT"),
        Overdue("it was to answer SSH"),
        Unavailable("it refused our key", reason="LOGIN_REFUSED"),
    ):
        assert is_to_blame(Failure.of(error))
    for reason in ("MAAS_CREDENTIALS", "MACHINE_LOST", "MAAS_REFUSED"):
        assert not is_to_blame(Failure.of(Failed("not its fault", reason=reason)))
    for reason in ("MAAS_DOWN", "ETCD_UNHEALTHY", "API_UNREACHABLE", ""):
        assert not is_to_blame(Failure.of(Unavailable("away", reason=reason)))
