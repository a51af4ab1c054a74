from itertools import product

import pytest

from domain import app as apps
from domain.app import App, Deployment, ImageType
from domain.errors import Invalid
from domain.manifest import documents
from domain.naming import as_dns, as_image, as_kubernetes, is_template_name, is_title


def app(**more: object) -> App:
    said = {"developer": "Acme & Co", "name": "shop 1", "version": "1.0", **more}
    return App.model_validate(said)


@pytest.mark.parametrize("name", ["a", "9", "A b_c-d.e&f,g!", "a "])
def test_titles(name: str) -> None:
    assert is_title(name)


@pytest.mark.parametrize("name", ["", " a", "_a", "-a", "é", "a\n", "a/b", "a\x00"])
def test_what_is_no_title(name: str) -> None:
    assert not is_title(name)


def test_names_of_templates_have_neither_blanks_nor_underscores() -> None:
    assert is_template_name("Blue-1.x")
    assert not any(map(is_template_name, ("", "a b", "a_b", ".a", "a&b", "a\n")))


def test_sanitising() -> None:
    assert as_dns("a 1&2_x.y!") == "a12-xy"
    assert as_kubernetes("A 1&2_x.y!") == "a12-x.y"
    assert as_image("a 1&2_x.y!,Z") == "a1-2_x.y.Z"


@pytest.mark.parametrize(("image", "deployment"), list(product(ImageType, Deployment)))
def test_an_image_can_be_deployed_in_its_own_way_only(
    image: ImageType, deployment: Deployment
) -> None:
    wanted = app(image_type=image, deployment=deployment)
    if apps.PAIRS[deployment] is image:
        assert apps.with_deployment(wanted) == wanted
    else:
        with pytest.raises(Invalid, match="deployment is not valid for image type"):
            apps.with_deployment(wanted)


def test_every_deployment_has_its_image() -> None:
    assert apps.PAIRS.keys() == set(Deployment)


@pytest.mark.parametrize(
    ("image", "usual"), [(ImageType.DOCKER, "kubernetes"), (ImageType.QCOW, "vm")]
)
def test_an_image_has_a_usual_deployment(image: ImageType, usual: str) -> None:
    assert apps.with_deployment(app(image_type=image)).deployment == usual


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"image_type": ImageType.DOCKER}, "hub/Acme-Co/images/shop1:1.0"),
        ({"deployment": "helm"}, "hub/Acme-Co/images/shop1"),
        ({"image_type": ImageType.DOCKER, "image_path": "own/x"}, "own/x"),
        ({"image_type": ImageType.QCOW, "image_path": "u#md5:"}, "u#md5:"),
    ],
)
def test_an_image_lies_where_it_says_or_with_its_developers(
    more: dict[str, object], path: str
) -> None:
    assert apps.with_image(app(**more), "hub").image_path == path


def test_kubernetes_gets_a_generator_if_it_has_nothing_else() -> None:
    whole = {"image_type": ImageType.DOCKER, "deployment": "kubernetes"}
    assert apps.with_generator(app(**whole)).generator == "kubernetes-basic"
    assert apps.with_generator(app(**whole, manifest="own")).generator == ""
    assert apps.with_generator(app(deployment="docker")).generator == ""


def test_what_was_generated_for_another_deployment_goes() -> None:
    before = app(deployment="kubernetes", generator="kubernetes-basic", manifest="m")
    after = before.model_copy(update={"deployment": "docker"})
    assert apps.without_stale_generator(after, before).manifest == ""
    assert apps.without_stale_generator(before, before) == before
    own = after.model_copy(update={"generator": ""})
    assert apps.without_stale_generator(own, before) == own


def test_a_manifest_has_a_service_for_each_of_tcp_and_udp_then_the_deployment() -> None:
    whole = app(
        name="My_app 1.0",
        image_path="hub/x:1",
        access_ports="udp:53,tcp:80,http:443,tcp:80",
        command="run  fast",
    )
    tcp, udp, deployment = documents(whole)
    assert tcp["metadata"] == {"name": "my-app10-tcp", "labels": {"run": "my-app1.0"}}
    assert tcp["spec"]["type"] == "LoadBalancer"
    assert tcp["spec"]["selector"] == {"run": "my-app1.0"}
    assert tcp["spec"]["ports"] == [
        {"name": "tcp80", "protocol": "TCP", "port": 80, "targetPort": 80},
        {"name": "http443", "protocol": "TCP", "port": 443, "targetPort": 443},
    ]
    assert udp["metadata"]["name"] == "my-app10-udp"
    assert [port["name"] for port in udp["spec"]["ports"]] == ["udp53"]
    assert deployment["metadata"] == {"name": "my-app10-deployment"}
    assert deployment["spec"]["replicas"] == 1
    pod = deployment["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "mexgitlabsecret"}]
    [container] = pod["containers"]
    assert container["name"] == "my-app10"
    assert container["image"] == "hub/x:1"
    assert container["imagePullPolicy"] == "Always"
    assert container["command"] == ["run", "", "fast"]
    assert [port["containerPort"] for port in container["ports"]] == [53, 80, 443]


def test_without_ports_there_is_only_the_deployment() -> None:
    [deployment] = documents(app())
    assert deployment["kind"] == "Deployment"
    assert "command" not in deployment["spec"]["template"]["spec"]["containers"][0]
