"""Which registry an image comes from, and what opens it."""

import base64
import json

import pytest

from agent.uris import DOCKER, source
from domain.errors import Invalid
from domain.registries import Credentials, named, registry_of


@pytest.mark.parametrize(
    ("uri", "registry"),
    [
        ("docker://registry.example/web:1", "registry.example"),
        ("docker://registry.example:5000/a/web", "registry.example:5000"),
        ("127.0.0.1:5000/web", "127.0.0.1:5000"),
        ("docker://localhost/web", "localhost"),
        ("docker://team/web", "docker.io"),
        ("web", "docker.io"),
        ("docker://web:1", "docker.io"),
        ("builtin:idle", ""),
        ("oci-archive:/a.b/c", ""),
        ("file:///a.b/c", ""),
    ],
)
def test_an_image_comes_from_its_registry(uri: str, registry: str) -> None:
    assert registry_of(uri) == registry
    meant = source(uri)
    assert (meant.kind == DOCKER) is bool(registry)
    assert not registry or meant.rest.startswith(f"{registry}/"), "as the node reads it"


REFERENCES = (
    "web",
    "team/web:1.2_x",
    "registry.example:5000/a/b__c-d.e:latest",
    "[::1]:5000/web",
    f"web@sha256:{'0' * 64}",
)
NO_REFERENCES = (
    "",
    "a b",
    "../../containers/other",
    "web/../../info",
    "web?all=true",
    "web#x",
    "web%2f..%2f..",
    "web\\x",
    "web\n",
    "web//x",
    "/web",
    "Web",
    "web:",
    "web:a:b/c d",
    "web@sha256:short",
    "a/" * 300 + "web",
)


@pytest.mark.parametrize("reference", REFERENCES)
def test_a_reference_is_read_as_registries_take_it(reference: str) -> None:
    assert reference in source(f"docker://{reference}").rest
    assert source(reference).kind == DOCKER


@pytest.mark.parametrize("reference", NO_REFERENCES)
@pytest.mark.parametrize("scheme", ["docker://", ""])
def test_what_would_lead_elsewhere_in_a_url_is_no_reference(scheme: str, reference: str) -> None:
    with pytest.raises(Invalid) as caught:
        source(f"{scheme}{reference}")
    assert caught.value.reason == "IMAGE_URI_INVALID"


def test_credentials_are_one_word_that_clients_of_registries_know() -> None:
    known = Credentials(username="ann", password="p?ss~wörd")
    said = json.loads(base64.urlsafe_b64decode(known.carried()))
    assert said == {"username": "ann", "password": "p?ss~wörd"}
    assert known.carried().isascii()
    assert "wörd" not in repr(known)


@pytest.mark.parametrize("wrong", ["", "web", "a/b.c", "https://a.b", "a.b:", "-a.b", "a b.c"])
def test_what_is_no_registry_is_refused(wrong: str) -> None:
    with pytest.raises(Invalid):
        named(wrong)
    assert named("a.b:5000") == "a.b:5000"
