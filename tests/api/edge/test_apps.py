"""Apps: what follows from their description, and what a change of it does."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from api.edge.apps import TRIES
from api.edge.texts import is_config, is_public_key
from protos.gen.edge.app_pb2 import AUTO_DELETE, IMAGE_TYPE_QCOW, App
from protos.gen.edge.flavor_pb2 import FlavorKey
from settings import Edge as Terms
from tests.api.edge.stubs import Edge, app, cloudlet, developer, flavor, template
from tests.clients.test_documents import Library

ANY = App()


@pytest.fixture
async def library() -> AsyncIterator[Library]:
    library = Library()
    server = await asyncio.start_server(library.answer, "127.0.0.1", 0)
    library.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield library


@pytest.fixture
def terms(library: Library) -> Terms:
    return Terms(image_host="hub.test", fetch_allow=(library.address,))


@pytest.fixture
async def edge(edge: Edge) -> Edge:
    for name in ("small", "large"):
        await edge("CreateFlavor", flavor(name))
    return edge


async def kept(edge: Edge) -> App:
    """The one app there is."""
    [one] = await edge("ShowApp", ANY)
    assert isinstance(one, App)
    return one


async def made(edge: Edge, **more: Any) -> App:
    """An app as it is kept after it was described so."""
    await edge("CreateApp", app(**more))
    return await kept(edge)


async def test_what_is_not_said_is_derived(edge: Edge) -> None:
    shown = await made(edge, access_ports="TCP:80,Http:443,udp:53")
    assert shown.image_path == "hub.test/acme/images/shop:1.0"
    assert shown.deployment == "kubernetes"
    assert shown.access_ports == "TCP:80,Http:443,udp:53"
    [carried] = [
        it["spec"]["ports"] for it in documents(shown) if it["metadata"]["name"] == "shop-tcp"
    ]
    assert [port["name"] for port in carried] == ["tcp80", "http443"]
    assert shown.deployment_generator == "kubernetes-basic"
    kinds = [(it["kind"], it["metadata"]["name"]) for it in documents(shown)]
    assert kinds == [
        ("Service", "shop-tcp"),
        ("Service", "shop-udp"),
        ("Deployment", "shop-deployment"),
    ]
    assert "&" not in shown.deployment_manifest


async def test_a_manifest_that_is_given_is_kept(edge: Edge) -> None:
    shown = await made(edge, deployment_manifest="own: true")
    assert shown.deployment_manifest == "own: true"
    assert shown.deployment_generator == ""


async def test_a_generator_that_is_named_wins(edge: Edge) -> None:
    shown = await made(edge, deployment_manifest="own", deployment_generator="kubernetes-basic")
    assert documents(shown)[-1]["kind"] == "Deployment"


async def test_texts_are_fetched_once(edge: Edge, library: Library) -> None:
    library.texts = {"/config": (200, b"resources: x"), "/manifest": (200, b"kind: X")}
    shown = await made(
        edge,
        config=f"{library.address}/config",
        deployment_manifest=f"{library.address}/manifest",
    )
    assert (shown.config, shown.deployment_manifest) == ("resources: x", "kind: X")
    await edge("UpdateApp", app(command="run", fields=["13"]))
    assert [asked for asked, _ in library.asked] == ["get /config", "get /manifest"]


async def test_a_generator_elsewhere_is_asked_with_a_description(
    edge: Edge, library: Library
) -> None:
    library.texts = {"/made": (200, b"kind: Made")}
    shown = await made(edge, deployment_generator=f"{library.address}/made")
    assert shown.deployment_manifest == "kind: Made"
    [(asked, body)] = library.asked
    assert asked == "post /made"
    assert b'"image_path":"hub.test/acme/images/shop:1.0"' in body.replace(b'": "', b'":"')


async def test_a_fetch_that_fails_leaves_no_app(edge: Edge, library: Library) -> None:
    told = await edge.refused("CreateApp", app(config=f"{library.address}/none"))
    assert told.reason == "FETCH_FAILED"
    assert await edge("ShowApp", ANY) == []


async def test_an_app_without_a_flavor_is_refused_whatever_flavors_there_are(edge: Edge) -> None:
    told = await edge.refused("CreateApp", app(default_flavor=None))
    assert told.message == "Specified flavor not found"


async def test_what_was_generated_follows_a_change(edge: Edge) -> None:
    await made(edge)
    await edge("UpdateApp", app(access_ports="UDP:9", fields=["7"]))
    shown = await kept(edge)
    assert shown.access_ports == "UDP:9"
    assert documents(shown)[0]["metadata"]["name"] == "shop-udp"
    await edge("UpdateApp", app(deployment="docker", fields=["15"]))
    shown = await kept(edge)
    assert (shown.deployment_manifest, shown.deployment_generator) == ("", "")


async def test_what_was_written_by_hand_does_not(edge: Edge) -> None:
    await made(edge, deployment_manifest="own")
    await edge("UpdateApp", app(access_ports="udp:9", fields=["7"]))
    assert (await kept(edge)).deployment_manifest == "own"


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        ({"default_flavor": FlavorKey(name="none")}, "9.1", "Specified flavor not found"),
        ({"default_flavor": FlavorKey()}, "9", "Specified flavor not found"),
        ({"access_ports": "tcp"}, "7", "Invalid Access Ports format"),
        ({"image_type": 9}, "5", "invalid ImageType"),
        ({"image_type": IMAGE_TYPE_QCOW}, "5", "deployment is not valid for image type"),
        ({"deployment": "vm"}, "15", "deployment is not valid for image type"),
        ({"auth_public_key": "x"}, "12", "auth_public_key is no public key"),
    ],
)
async def test_a_change_is_looked_at_as_a_new_app_is(
    edge: Edge, change: dict[str, Any], path: str, message: str
) -> None:
    before = await made(edge)
    told = await edge.refused("UpdateApp", app(**change, fields=[path]))
    assert told.message.startswith(message)
    await edge("UpdateApp", app(**change, fields=["14"]))
    assert await kept(edge) == before, "what is not named is not looked at"


async def test_a_package_belongs_to_one_app_in_all_its_versions(edge: Edge) -> None:
    await made(edge, android_package_name="com.x")
    await edge("CreateApp", app(version="2.0", android_package_name="com.x"))
    for other in (app("other"), app(owner="other")):
        other.android_package_name = "com.x"
        assert (await edge.refused("CreateApp", other)).reason == "APP_ANDROID"
    await edge("CreateApp", app("third"))
    third = app("third", android_package_name="com.x", fields=["18"])
    assert (await edge.refused("UpdateApp", third)).reason == "APP_ANDROID"
    unknown = app("none", android_package_name="com.x")
    assert (await edge.refused("UpdateApp", unknown)).reason == "APP_ANDROID", "looked at first"
    for version in ("1.0", "2.0"):
        await edge("DeleteApp", app(version=version))
    await edge("UpdateApp", third)


async def test_apps_that_yield_go_with_what_they_need(edge: Edge) -> None:
    await edge("CreateDeveloper", developer())
    await edge("CreateApp", app(del_opt=AUTO_DELETE))
    await edge("CreateApp", app("other", "zeta", del_opt=AUTO_DELETE))
    await edge("DeleteDeveloper", developer())
    assert [it.key.developer_key.name for it in await edge("ShowApp", ANY)] == ["zeta"]
    await edge("DeleteFlavor", flavor())
    assert await edge("ShowApp", ANY) == []


async def test_apps_that_became_firm_keep_what_they_need(edge: Edge) -> None:
    await made(edge, del_opt=AUTO_DELETE)
    await edge("UpdateApp", app(fields=["20"]))
    assert (await edge.refused("DeleteFlavor", flavor())).message == "Flavor in use by App"
    await edge("UpdateApp", app(default_flavor=FlavorKey(name="large"), fields=["9"]))
    await edge("DeleteFlavor", flavor())


async def test_what_nobody_asked_for_strictly_need_not_exist(edge: Edge) -> None:
    await edge("CreateCloudlet", cloudlet(owner="nobody"))
    await edge("CreateCluster", template(default="small"))
    await edge("DeleteFlavor", flavor())


async def test_changes_at_the_same_time_are_all_made(edge: Edge) -> None:
    await made(edge)
    changes = [
        app(command="run", fields=["13"]),
        app(annotations="note", fields=["14"]),
        app(access_ports="udp:9", fields=["7"]),
        app(permits_platform_apps=True, fields=["19"]),
    ]
    await asyncio.gather(*(edge("UpdateApp", change) for change in changes))
    shown = await kept(edge)
    assert shown.command == "run"
    assert shown.annotations == "note"
    assert shown.permits_platform_apps
    assert documents(shown)[-1]["spec"]["template"]["spec"]["containers"][0]["command"] == ["run"]


@pytest.mark.parametrize("legacy", [False, True], ids=["proper", "legacy"])
class TestTooLate:
    @pytest.fixture
    def terms(self, library: Library, legacy: bool) -> Terms:
        return Terms(fetch_allow=(library.address,), legacy_codes=legacy)

    async def test_who_always_is_does_not_try_for_ever(
        self, legacy: bool, edge: Edge, library: Library
    ) -> None:
        """Somebody else changes the app each time that the new manifest is fetched."""
        await made(edge, deployment_manifest="own")
        library.texts = {"/manifest": (200, b"kind: X")}
        library.meanwhile = lambda: edge(
            "UpdateApp", app(annotations=f"change {len(library.asked)}", fields=["14"])
        )
        change = app(deployment_manifest=f"{library.address}/manifest", fields=["16"])
        told = await edge.refused("UpdateApp", change)
        assert (told.message, told.reason) == (
            "the app is being changed by too many at once",
            "APP_CHANGING",
        )
        assert told.code is (
            grpc.StatusCode.UNKNOWN if legacy else grpc.StatusCode.RESOURCE_EXHAUSTED
        )
        assert len(library.asked) == TRIES
        shown = await kept(edge)
        assert (shown.deployment_manifest, shown.annotations) == ("own", f"change {TRIES}")


def documents(shown: App) -> list[Any]:
    return list(yaml.safe_load_all(shown.deployment_manifest))


def test_public_keys_come_in_three_forms() -> None:
    key = rsa.generate_private_key(65537, 2048).public_key()
    line = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    pkcs1 = key.public_bytes(Encoding.PEM, PublicFormat.PKCS1).decode()
    pkix = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    for text in (line, f"{line} ann@host\n", f'no-pty,command="a b" {line}', pkcs1, pkix):
        assert is_public_key(text)
    other = ec.generate_private_key(ec.SECP256R1()).public_key()
    assert is_public_key(other.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode())
    body = line.split()[1]
    ssh2 = f"---- BEGIN SSH2 PUBLIC KEY ----\n{body}\n---- END SSH2 PUBLIC KEY ----\n"
    for text in ("", "ssh-rsa", "ssh-rsa !!", ssh2, pkix[:60], "x" * 20_000, "é"):
        assert not is_public_key(text)


@pytest.mark.parametrize("text", ['{"resources": "x"}', "resources: x", "a: [1, 2]", "{}"])
def test_a_config_is_json_or_a_mapping(text: str) -> None:
    assert is_config(text)


@pytest.mark.parametrize(
    "text", ["text", "[1]", "- a", "a: b: c", "[" * 30_000, "{" * 30_000, "\x00", "&a [*a"]
)
def test_other_texts_are_no_config(text: str) -> None:
    assert not is_config(text)
