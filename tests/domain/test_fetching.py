import pytest

from domain.fetching import is_allowed, is_url

ALLOWED = ("https://good.test/apps", "http://plain.test:8080")


@pytest.mark.parametrize(
    "url",
    [
        "https://good.test/apps",
        "https://good.test:443/apps/x?y=1#z",
        "https://GOOD.test/apps/a/../b",
        "https://good.test/apps/a%20b;version=1/c",
        "https://good.test/apps/100%25",
        "http://plain.test:8080",
        "http://plain.test:8080/anything",
    ],
)
def test_what_lies_below_a_prefix_may_be_asked(url: str) -> None:
    assert is_allowed(url, ALLOWED)


@pytest.mark.parametrize(
    "url",
    [
        "https://good.test/apps2",
        "https://good.test/other",
        "https://good.test/apps/../other",
        "https://good.test/apps/%2e%2e/other",
        "https://good.test/apps/..%2fother",
        "https://good.test/apps/..;/other",
        "https://good.test/apps/..;x=1/other",
        "https://good.test/apps/%2e%2e%3b/other",
        "https://good.test/apps/%252e%252e/other",
        "https://good.test/apps/%25252e%25252e%25252fother",
        "https://good.test/apps/..%255c..%255cother",
        "https://good.test/apps/%2525252525252e/x",
        "https://good.test/apps/x%250d%250aHost:evil.test",
        "https://good.test/other/%2e%2e/apps",
        "https://good.test/apps/%ff/../x",
        "https://good.test.evil.test/apps/x",
        "https://good.test@evil.test/apps/x",
        "https://evil.test\\@good.test/apps/x",
        "https://good.test:8443/apps/x",
        "http://good.test/apps/x",
        "http://plain.test/x",
        "http://plain.test:99999/x",
        "https://good.te\tst/apps/x",
        "https://good.test/apps/x y",
        "file:///etc/passwd",
        "",
    ],
)
def test_nothing_else_may(url: str) -> None:
    assert not is_allowed(url, ALLOWED)


def test_nothing_may_be_asked_if_nothing_is_named() -> None:
    assert not is_allowed("https://good.test/apps", ())


def test_what_is_a_url() -> None:
    assert is_url("http://x")
    assert is_url("https://x")
    assert not is_url("apiVersion: v1")
    assert not is_url("ftp://x")
