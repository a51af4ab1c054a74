"""Every method that the audit trail has says where its request names what it is about."""

from api.access import PERMISSIONS
from domain.access import BY_HANDLER
from tests.api.test_closed_doors import contracts


def test_every_method_that_is_written_down_says_what_it_is_about() -> None:
    pool = contracts()
    for method, asked in PERMISSIONS.items():
        if not (asked.changes or asked.discloses):
            continue
        assert asked.subject, f'{method}: add .about("the field that names it")'
        service, _, name = method.partition("/")
        fields = pool.FindServiceByName(service).methods_by_name[name].input_type.fields_by_name
        said = [asked.subject] if asked.subject != BY_HANDLER else []
        assert all(each in fields for each in (*said, *filter(None, [asked.command]))), method
