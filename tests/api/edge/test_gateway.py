"""The edge contract over HTTP, as clients of its first gateway call it."""

import json
from typing import Any

import pytest
from httpx2 import AsyncClient

from api.edge.gateway import path_of
from api.edge.words import camel, plain, spelt
from protos.gen.edge.app_pb2 import App
from protos.gen.edge.clusterinst_pb2 import ClusterInst
from protos.gen.edge.common_pb2 import CREATE_REQUESTED, IP_ACCESS_DEDICATED_OR_SHARED
from settings import Edge as Terms

FLAVOR = {"key": {"name": "small"}, "ram": "1024", "vcpus": 1, "disk": 1}
CLOUDLET = {
    "key": {"operator_key": {"name": "tele"}, "name": "west"},
    "location": {"latitude": 1, "longitude": 2},
    "num_dynamic_ips": 5,
    "ip_support": "ipsupport_dynamic",
}
APP = {
    "key": {"developer_key": {"name": "acme"}, "name": "shop", "version": "1"},
    "image_type": "ImageTypeDocker",
    "default_flavor": {"name": "small"},
}


async def posted(http: AsyncClient, path: str, document: Any) -> tuple[int, list[Any]]:
    """The status, and the documents of the answer."""
    reply = await http.post(path, json=document)
    return reply.status_code, [json.loads(line) for line in reply.text.splitlines()]


async def test_what_is_described_is_shown(http: AsyncClient) -> None:
    assert await posted(http, "/create/flavor", FLAVOR) == (200, [{"message": "", "code": 0}])
    assert await posted(http, "/create/cloudlet", CLOUDLET) == (200, [])
    assert (await posted(http, "/create/app", APP))[0] == 200
    code, [shown] = await posted(http, "/show/flavor", {})
    assert shown == {"result": {**FLAVOR, "vcpus": "1", "disk": "1", "fields": []}}
    code, [shown] = await posted(http, "/show/cloudlet", {"key": {"name": "west"}})
    assert (code, shown["result"]["ip_support"]) == (200, "IpSupportDynamic")
    code, [shown] = await posted(http, "/show/app", {})
    assert (shown["result"]["image_type"], shown["result"]["del_opt"]) == (
        "ImageTypeDocker",
        "NoAutoDelete",
    )
    assert await posted(http, "/show/clusterinst", {}) == (200, [])
    changed = {**CLOUDLET, "fields": ["4"], "access_uri": "u"}
    assert await posted(http, "/update/cloudlet", changed) == (200, [])
    assert await posted(http, "/delete/cloudet", CLOUDLET) == (200, [])
    assert await posted(http, "/show/cloudlet", {}) == (200, [])


async def test_a_refusal_has_its_code_and_text(http: AsyncClient) -> None:
    await posted(http, "/create/flavor", FLAVOR)
    taken = {"code": 6, "message": "Key already exists", "details": []}
    assert await posted(http, "/create/flavor", FLAVOR) == (409, [taken])
    code, [refusal] = await posted(http, "/delete/cloudlet", CLOUDLET)
    assert (code, refusal["message"]) == (404, "Key not found")
    strange: list[Any] = [{"kye": {}}, [], {"ram": "much"}, {"key": 7}]
    for nonsense in strange:
        code, [refusal] = await posted(http, "/create/flavor", nonsense)
        assert (code, refusal["code"]) == (400, 3)
    assert (await http.post("/create/flavor", content=b"{}")).status_code == 400
    is_json = {"content-type": "application/json"}
    for unreadable in (b'{"\\ud800": 1}', b'{"location": {"latitude": 1' + b"0" * 400 + b"}}"):
        reply = await http.post("/create/cloudlet", content=unreadable, headers=is_json)
        assert reply.status_code == 400
    assert (await http.get("/show/flavor")).status_code == 405
    unknown = await http.post("/show/cloudletrefs", json={})
    assert (unknown.status_code, unknown.json()["code"]) == (501, 12)


@pytest.mark.parametrize("said", [{}, {"content-type": "application/x-www-form-urlencoded"}])
async def test_a_script_need_not_say_that_it_sends_json(
    http: AsyncClient, said: dict[str, str]
) -> None:
    reply = await http.post("/create/flavor", content=json.dumps(FLAVOR), headers=said)
    assert reply.status_code == 200


@pytest.mark.parametrize("header", ["Origin", "Sec-Fetch-Mode", "Sec-Fetch-Site"])
async def test_a_page_has_to_say_that_it_sends_json(http: AsyncClient, header: str) -> None:
    page = {header: str(http.base_url)}
    for kind in ({}, {"content-type": "text/plain"}):
        reply = await http.post(
            "/create/flavor", content=json.dumps(FLAVOR), headers={**page, **kind}
        )
        assert (reply.status_code, reply.json()["code"]) == (415, 3)
    reply = await http.post("/create/flavor", json=FLAVOR, headers=page)
    assert reply.status_code == 200


async def test_fields_that_the_contract_does_not_have_are_passed_over(http: AsyncClient) -> None:
    more = {**FLAVOR, "colour": "red", "key": {"name": "small", "age": 3}, "opts": [{"x": 1}]}
    assert (await posted(http, "/create/flavor", more))[0] == 200
    assert (await posted(http, "/create/app", {**APP, "configs": [{"kind": "a", "x": 1}]}))[
        0
    ] == 200
    strange = {**APP, "image_type": "ImageTypeStrange"}
    assert (await posted(http, "/create/app", strange))[0] == 400, "an enum is still read"


@pytest.mark.parametrize("verb", ["create", "update", "delete", "show"])
async def test_what_the_contract_does_not_have_is_not_implemented(
    http: AsyncClient, verb: str
) -> None:
    for rest in ("", "nothing", "app/more"):
        for method in ("POST", "GET"):
            reply = await http.request(method, f"/{verb}/{rest}")
            assert (reply.status_code, reply.json()["code"]) == (501, 12)
    assert (await http.post(f"/{verb}")).status_code == 404
    assert (await http.post("/nothing", json={})).status_code == 404


class TestLegacyCodes:
    @pytest.fixture
    def terms(self) -> Terms:
        return Terms(legacy_codes=True)

    async def test_every_refusal_is_unknown(self, http: AsyncClient) -> None:
        unknown = {"code": 2, "message": "Key not found", "details": []}
        assert await posted(http, "/delete/operator", {"key": {"name": "x"}}) == (500, [unknown])


@pytest.mark.parametrize(
    ("service", "method", "path"),
    [
        ("FlavorApi", "CreateFlavor", "/create/flavor"),
        ("ClusterInstApi", "UpdateClusterInst", "/update/clusterinst"),
        ("NodeApi", "ShowNodeLocal", "/show/nodelocal"),
        *(("ExecApi", "RunCommand", ""), ("CloudletRefsApi", "ShowCloudletRefs", "")),
        *(("CloudletInfoApi", "InjectCloudletInfo", ""), ("NotifyApi", "StreamNotice", "")),
    ],
)
def test_a_method_has_a_path_or_none(service: str, method: str, path: str) -> None:
    assert path_of(service, method) == path


def test_enums_are_words_and_read_in_any_spelling() -> None:
    assert camel("L_PROTO_TCP") == "LProtoTcp"
    cluster = ClusterInst(state=CREATE_REQUESTED, ip_access=IP_ACCESS_DEDICATED_OR_SHARED)
    document = plain(cluster)
    assert (document["state"], document["ip_access"]) == (
        "CreateRequested",
        "IpAccessDedicatedOrShared",
    )
    for word in ("IpAccessShared", "ip_access_shared", "IPACCESSSHARED", 3):
        meant = spelt({"ipAccess": word}, ClusterInst.DESCRIPTOR)
        assert meant["ipAccess"] in ("IP_ACCESS_SHARED", 3)
    assert spelt({"image_type": "Strange"}, App.DESCRIPTOR) == {"image_type": "Strange"}
