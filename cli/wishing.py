"""What is wished of a change beside its request: metadata, as the contract has no field for it."""

from cli.complaints import Code, Complaint


def of_a_delete(
    name: str, *, force: bool, keep_data: bool, delete_data: str
) -> tuple[tuple[str, str], ...]:
    """What is wished of a delete beside its request."""
    if delete_data and (keep_data or delete_data != name):
        raise Complaint(
            f"--delete-data does not say {name}"
            if delete_data != name
            else "--keep-data and --delete-data mean opposite things",
            Code.USAGE,
            do=f"--keep-data, or --delete-data {name}",
        )
    data = "keep" if keep_data else f"delete {delete_data}" if delete_data else ""
    forced = (("windlass-force", "true"),) if force else ()
    return (*forced, *((("windlass-data", data),) if data else ()))
