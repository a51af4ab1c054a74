"""Two instances whose manifests name the same objects, in one cluster: whoever came first keeps
them, and whoever comes second is refused before anything is changed."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.crm import names
from agent.crm.manifests import Manifests, Note
from agent.crm.objects import HOLDER
from domain import app, manifest
from domain.errors import Conflict, Failed
from tests.sim.apiserver import NETWORK, Built, built

FIRST, SECOND = (Note(f"shop-{number}", f"AppInst {number}") for number in (1, 2))
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Built]:
    async with built(tmp_path) as site:
        await site.initialise()
        await site.worker("metal-1")
        async with site.caller() as api:
            await api.post("/apis/apps/v1/namespaces/kube-system/daemonsets", json=NETWORK)
        yield site


@pytest.fixture
def manifests() -> Manifests:
    return Manifests(look_seconds=0.01)


def shop(version: str, image: str = "shop") -> str:
    described = app.App(
        developer="d",
        name="Shop",
        version=version,
        access_ports="tcp:80",
        image_path=f"{image}:{version}",
    )
    return yaml.safe_dump_all(manifest.documents(described))


def config(name: str, namespace: str = "default", **more: Any) -> str:
    metadata = {"name": name, "namespace": namespace, **more}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


async def there(site: Built, path: str = DEPLOYMENTS) -> dict[str, Any]:
    async with site.caller() as api:
        found = (await api.get(path)).json()["items"]
    return {each["metadata"]["name"]: each for each in found}


async def noted(site: Built) -> set[str]:
    found = await there(site, "/api/v1/namespaces/kube-system/configmaps")
    return {name for name in found if name in (FIRST.name, SECOND.name)}


async def test_another_version_of_an_app_is_refused_and_destroys_nothing(
    site: Built, manifests: Manifests
) -> None:
    """Neither at its creation nor at its deletion, nor when a delete follows the refusal."""
    access = site.kubeconfig()
    [pod] = await manifests.apply(access, FIRST, shop("1.0"))
    before = await there(site)
    with pytest.raises(Conflict, match="another app instance") as refused:
        await manifests.apply(access, SECOND, shop("2.0"))
    assert FIRST.owner not in refused.value.message
    assert refused.value.do
    await manifests.delete(access, SECOND)
    assert await there(site) == before
    assert await noted(site) == {FIRST.name}
    with pytest.raises(Failed, match="no pod of this app runs"):
        await manifests.run(access, SECOND, "", ["hostname"])
    assert (await manifests.run(access, FIRST, "", ["hostname"])).stdout == f"{pod}\n"
    assert await manifests.apply(access, FIRST, shop("1.0")) == [pod]
    await manifests.delete(access, FIRST)
    assert await there(site) == {}
    assert await manifests.apply(access, SECOND, shop("2.0"))


async def test_one_shared_object_keeps_all_of_a_manifest_out(
    site: Built, manifests: Manifests
) -> None:
    access = site.kubeconfig()
    await manifests.apply(access, FIRST, config("shared"))
    with pytest.raises(Conflict, match="configmap shared"):
        await manifests.apply(access, SECOND, f"{config('own')}---\n{config('shared')}")
    configs = "/api/v1/namespaces/default/configmaps"
    assert "own" not in await there(site, configs)
    await manifests.apply(access, SECOND, config("own"))
    with pytest.raises(Conflict):
        await manifests.apply(access, SECOND, config("shared"))
    assert {"own", "shared"} <= (await there(site, configs)).keys()


async def test_what_somebody_else_made_is_left_alone(site: Built, manifests: Manifests) -> None:
    """What carries no mark is neither taken over nor removed."""
    access, path = site.kubeconfig(), "/api/v1/namespaces/default/configmaps"
    async with site.caller() as api:
        await api.post(path, json=yaml.safe_load(config("theirs")))
    with pytest.raises(Conflict, match="somebody else"):
        await manifests.apply(access, FIRST, config("theirs"))
    await manifests.apply(access, FIRST, config("mine"))
    async with site.caller() as api:
        unmark = {"metadata": {"annotations": {HOLDER: None}}}
        kind = {"content-type": "application/merge-patch+json"}
        await api.patch(f"{path}/mine", json=unmark, headers=kind)
    await manifests.delete(access, FIRST)
    assert {"mine", "theirs"} <= (await there(site, path)).keys()


@pytest.mark.parametrize(
    "forged",
    [
        config("x", annotations={HOLDER: FIRST.owner}),
        config("x", annotations={"windlass/marked": "true"}),
        config("x", labels={HOLDER: "me"}),
        config(f"shop-{'a' * 26}", "kube-system"),
        config("shop-0123456789-01234567", "kube-system"),
        config("x", "kube-system", labels={"app.kubernetes.io/managed-by": "windlass-crm"}),
    ],
)
async def test_no_manifest_says_who_holds_what(
    site: Built, manifests: Manifests, forged: str
) -> None:
    """Nor passes for a note of what was applied for another."""
    with pytest.raises(Failed, match="the manifest cannot be applied"):
        await manifests.apply(site.kubeconfig(), SECOND, f"{config('y')}---\n{forged}")
    assert "y" not in await there(site, "/api/v1/namespaces/default/configmaps")


async def test_no_template_says_so_either(site: Built, manifests: Manifests) -> None:
    documents = list(yaml.safe_load_all(shop("1.0")))
    [deployment] = [each for each in documents if each["kind"] == "Deployment"]
    deployment["spec"]["template"]["metadata"]["annotations"] = {HOLDER: FIRST.owner}
    with pytest.raises(Failed, match="reserved"):
        await manifests.apply(site.kubeconfig(), SECOND, yaml.safe_dump_all(documents))


async def test_labels_of_anothers_pods_do_not_lead_to_them(
    site: Built, manifests: Manifests
) -> None:
    """A command runs in pods of the instance alone, whatever its manifest's selectors say."""
    access = site.kubeconfig()
    [victim] = await manifests.apply(access, FIRST, shop("1.0"))
    documents = [each for each in yaml.safe_load_all(shop("1.0")) if each["kind"] == "Deployment"]
    documents[0]["metadata"]["name"] = "decoy"
    documents[0]["spec"]["replicas"] = 0
    await manifests.apply(access, SECOND, yaml.safe_dump_all(documents))
    with pytest.raises(Failed, match="no pod of this app runs"):
        await manifests.run(access, SECOND, "", ["hostname"])
    with pytest.raises(Failed) as refused:
        await manifests.run(access, SECOND, victim, ["hostname"])
    assert victim not in (refused.value.do or "")
    assert (await manifests.run(access, FIRST, "", ["hostname"])).stdout == f"{victim}\n"


async def test_what_an_earlier_release_applied_is_recognised(
    site: Built, manifests: Manifests
) -> None:
    """By its note, which the instance that it can only have been made for takes over."""
    access, before = site.kubeconfig(), "shop-0123456789-01234567"
    assert names.is_given(before)
    notes = "/api/v1/namespaces/kube-system/configmaps"
    note = yaml.safe_load(
        config(before, "kube-system", labels={"app.kubernetes.io/managed-by": "windlass-crm"})
    )
    note["data"] = {"manifest": config("old")}
    async with site.caller() as api:
        await api.post(notes, json=note)
        await api.post("/api/v1/namespaces/default/configmaps", json=yaml.safe_load(config("old")))
    assert await manifests.all(access) == [Note(before, "")]
    mine = FIRST._replace(earlier=before)
    with pytest.raises(Conflict):
        await manifests.apply(access, SECOND, config("old"))
    await manifests.claim(access, Note(before, FIRST.owner))
    await manifests.claim(access, Note(before, SECOND.owner))  # too late
    assert await manifests.all(access) == [Note(before, FIRST.owner)]
    with pytest.raises(Conflict, match="another owner"):
        await manifests.delete(access, SECOND._replace(earlier=before))
    await manifests.apply(access, mine, config("old"))
    assert await noted(site) == set()
    found = await there(site, "/api/v1/namespaces/default/configmaps")
    assert found["old"]["metadata"]["annotations"][HOLDER] == FIRST.owner
    await manifests.delete(access, mine)
    assert "old" not in await there(site, "/api/v1/namespaces/default/configmaps")
    assert await manifests.all(access) == []
