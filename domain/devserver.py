"""The Temporal development server's command line, for `windlass up` and the tests alike: what was
measured on one set of flags holds for no other."""

from collections.abc import Sequence

FLAGS: tuple[str, ...] = (
    # Without these two every commit is an fsync. No acknowledged signal was lost to a kill.
    *("--sqlite-pragma", "journal_mode=wal"),
    *("--sqlite-pragma", "synchronous=normal"),
    # 20 polls a second by default, which is a wait of 50 ms for every task that is dispatched.
    *("--dynamic-config-value", "history.transferProcessorMaxPollRPS=2000"),
    *("--dynamic-config-value", "history.timerProcessorMaxPollRPS=2000"),
    *("--dynamic-config-value", "history.visibilityProcessorMaxPollRPS=2000"),
    *("--dynamic-config-value", "history.outboundProcessorMaxPollRPS=2000"),
    # Timers are up to a second late by default, and so are short back-offs.
    *("--dynamic-config-value", 'history.timerProcessorMaxTimeShift="10ms"'),
    # One partition halves the 99th percentile and keeps priorities strict.
    *("--dynamic-config-value", "matching.numTaskqueueReadPartitions=1"),
    *("--dynamic-config-value", "matching.numTaskqueueWritePartitions=1"),
)


def arguments(
    *,
    ip: str = "127.0.0.1",
    port: int,
    ui_port: int,
    metrics_port: int,
    database_file: str,
    namespaces: Sequence[str] = (),
    codec: str = "",
) -> list[str]:
    """What follows `temporal`. Name every port: the server panics when it meets one that is
    taken, so whoever starts it looks first and tries again. `default` is always there;
    `namespaces` are made beside it. `codec` is where its web UI has payloads opened."""
    ports = {"--port": port, "--ui-port": ui_port, "--metrics-port": metrics_port}
    return [
        *("server", "start-dev", "--ip", ip, "--db-filename", database_file),
        *(word for flag, number in ports.items() for word in (flag, str(number))),
        *(word for name in namespaces for word in ("--namespace", name)),
        *(("--ui-codec-endpoint", codec) if codec else ()),
        *("--log-format", "json", "--log-level", "warn"),
        *FLAGS,
    ]
