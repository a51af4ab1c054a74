from itertools import pairwise

from domain.devserver import FLAGS, arguments


def test_the_command_names_every_port_and_carries_the_flags() -> None:
    words = arguments(port=7233, ui_port=8233, metrics_port=9233, database_file="var/temporal.db")
    assert words[:2] == ["server", "start-dev"]
    pairs = dict(pairwise(words))
    assert pairs["--ip"] == "127.0.0.1"
    assert pairs["--db-filename"] == "var/temporal.db"
    assert (pairs["--port"], pairs["--ui-port"], pairs["--metrics-port"]) == (
        "7233",
        "8233",
        "9233",
    )
    assert tuple(words[-len(FLAGS) :]) == FLAGS


def test_the_web_ui_is_told_where_payloads_are_opened() -> None:
    at = "http://127.0.0.1:8282/codec"
    words = arguments(port=1, ui_port=2, metrics_port=3, database_file="t.db", codec=at)
    assert dict(pairwise(words))["--ui-codec-endpoint"] == at
    words = arguments(port=1, ui_port=2, metrics_port=3, database_file="t.db")
    assert "--ui-codec-endpoint" not in words


def test_further_namespaces_are_made() -> None:
    words = arguments(
        port=1, ui_port=2, metrics_port=3, database_file="t.db", namespaces=("one", "two")
    )
    assert [words[n + 1] for n, word in enumerate(words) if word == "--namespace"] == ["one", "two"]
