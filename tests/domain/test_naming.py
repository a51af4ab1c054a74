import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain import naming
from domain.naming import (
    is_dns_label,
    is_label_key,
    is_label_value,
    is_reserved_label,
    is_tag,
)

labels = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True)


@given(labels)
def test_a_label_is_a_label_a_key_a_value_and_a_tag(text: str) -> None:
    assert is_dns_label(text)
    assert is_label_key(text)
    assert is_label_value(text)
    assert is_tag(text)


@given(labels)
def test_a_label_with_anything_odd_in_it_is_none(text: str) -> None:
    for odd in (
        f"-{text}",
        f"{text}-",
        f"{text}\n",
        f" {text}",
        text.upper() + "A",
        f"{text}_",
        "",
    ):
        assert not is_dns_label(odd)


@pytest.mark.parametrize("longest", [naming.CLUSTER_NAME_LENGTH, naming.POOL_NAME_LENGTH])
def test_a_label_has_a_longest_length(longest: int) -> None:
    assert is_dns_label("a" * longest, longest)
    assert not is_dns_label("a" * (longest + 1), longest)


def test_a_node_of_any_pool_has_a_name_that_is_a_label() -> None:
    assert is_dns_label("p" * naming.POOL_NAME_LENGTH + "-" + "x" * naming.SUFFIX_LENGTH)
    assert is_dns_label(f"{naming.CONTROL_PLANE}-{naming.SUFFIX_ALPHABET[: naming.SUFFIX_LENGTH]}")


def test_suffixes_spell_no_words() -> None:
    assert not set(naming.SUFFIX_ALPHABET) & set("aeiou013")
    assert len(set(naming.SUFFIX_ALPHABET)) == len(naming.SUFFIX_ALPHABET)


@pytest.mark.parametrize(
    "key", ["tier", "Tier_1.x", "example.com/tier", "a.b-c.d/T", "x" * 253 + "/a", "a" * 63]
)
def test_label_keys(key: str) -> None:
    assert is_label_key(key)


@pytest.mark.parametrize(
    "key",
    [
        *("", "/", "/tier", "example.com/", "a/b/c", "Example.com/tier", "a..b/tier"),
        *("-tier", "tier-", "ti er", "tier\n", "a" * 64, "x" * 254 + "/a", "ä"),
    ],
)
def test_what_is_no_label_key(key: str) -> None:
    assert not is_label_key(key)


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ("", True),
        ("v1.2_3", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("a b", False),
        ("-", False),
    ],
)
def test_label_values(value: str, fits: bool) -> None:
    assert is_label_value(value) is fits


@pytest.mark.parametrize(
    ("key", "reserved"),
    [
        ("tier", False),
        ("example.com/tier", False),
        ("notkubernetes.io/tier", False),
        ("node-pool", True),
        ("example.com/node-pool", False),
        ("kubernetes.io/os", False),
        ("kubernetes.io/metadata.name", True),
        ("node-role.kubernetes.io/control-plane", True),
        ("topology.kubernetes.io/zone", False),
        ("topology.kubernetes.io/other", True),
        ("node.kubernetes.io/anything", False),
        ("kubelet.kubernetes.io/anything", False),
        ("k8s.io/x", True),
        ("sigs.k8s.io/x", True),
    ],
)
def test_what_is_ours_or_kubernetes_to_set_is_reserved(key: str, reserved: bool) -> None:
    assert is_reserved_label(key) is reserved


@pytest.mark.parametrize(
    ("tag", "fits"),
    [
        *(("big", True), ("Big_1-x", True), ("a" * 63, True)),
        *(("", False), ("a" * 64, False), ("a b", False), ("a.b", False), ("a,b", False)),
    ],
)
def test_tags(tag: str, fits: bool) -> None:
    assert is_tag(tag) is fits
