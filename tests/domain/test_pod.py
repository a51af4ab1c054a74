"""What filters let through. Rows are named after the requirements they keep."""

from typing import Any

import pytest

from domain.errors import Invalid, NotFound
from domain.pod import (
    ENDED,
    NODE_STATE,
    App,
    AppState,
    Image,
    ImageFilter,
    Network,
    Pod,
    PodFilter,
    PodState,
    image_of,
    images_match,
    pod_id,
    pod_of,
    pods_match,
)

POD = Pod(
    id="11111111-2222-5333-8444-555555555555",
    state=PodState.RUNNING,
    pid=42,
    apps=(App(name="web", image=Image(id="sha512-a")), App(name="log", image=Image(id="sha512-b"))),
    networks=(Network(name="default"), Network(name="private")),
    annotations=(("team", "red"), ("stage", "test"), ("team", "blue")),
    cgroup="/machine/pod-a",
    created_ns=1,
    started_ns=2,
    marked_ns=3,
    manifest="{}",
)
IMAGE = Image(
    id="sha512-a",
    name="example.com/foo/x",
    version="1",
    imported=1024,
    manifest="{}",
    labels=(("os", "linux"), ("arch", "amd64")),
    annotations=(("built", "here"),),
)


def by(**conditions: Any) -> PodFilter:
    return PodFilter(**conditions)


ALL_RIGHT = {
    "ids": (POD.id,),
    "states": (PodState.RUNNING,),
    "app_names": ("web",),
    "image_ids": ("sha512-b",),
    "network_names": ("private",),
    "annotations": (("stage", "test"),),
    "cgroups": ("/machine/pod-a",),
    "pod_sub_cgroups": ("/machine/pod-a/web",),
}
ALL_WRONG = {
    "ids": ("other",),
    "states": (PodState.EXITED,),
    "app_names": ("none",),
    "image_ids": ("none",),
    "network_names": ("none",),
    "annotations": (("stage", "live"),),
    "cgroups": ("/machine",),
    "pod_sub_cgroups": ("/machine",),
}
HALF_RIGHT = {**ALL_RIGHT, "ids": ("other",), "cgroups": ("/other",)}

PODS: dict[str, tuple[list[PodFilter], bool]] = {
    "R-01 state": ([by(states=(PodState.EXITED, PodState.RUNNING))], True),
    "R-01 another state": ([by(states=(PodState.EXITED,))], False),
    "R-01 a state that no pod has": ([by(states=(None,))], False),
    "R-02 all apps": ([by(app_names=("web", "log"))], True),
    "R-02 one extra": ([by(app_names=("web", "log", "db"))], False),
    "R-03 all networks": ([by(network_names=("default", "private"))], True),
    "R-03 one extra": ([by(network_names=("default", "public"))], False),
    "R-04 all annotations": ([by(annotations=(("team", "red"), ("stage", "test")))], True),
    "R-05 an extra key": ([by(annotations=(("team", "red"), ("owner", "me")))], False),
    "R-06 a wrong value": ([by(annotations=(("stage", "live"),))], False),
    "R-06 the first of two counts": ([by(annotations=(("team", "blue"),))], False),
    "R-07 every condition wrong": ([by(**ALL_WRONG)], False),
    "R-08 some right": ([by(**HALF_RIGHT)], False),
    "R-09 all right": ([by(**ALL_RIGHT)], True),
    "R-10 no filter": ([], True),
    "R-10 an empty one": ([by()], True),
    "R-11 both": ([by(**ALL_RIGHT), by()], True),
    "R-12 one of two": ([by(**ALL_WRONG), by(**ALL_RIGHT)], True),
    "R-13 none": ([by(**ALL_WRONG), by(**HALF_RIGHT)], False),
    "R-14 image in the list": ([by(image_ids=("sha512-a",))], True),
    "R-14 image not in it": ([by(image_ids=("sha512-c",))], False),
    "R-34 cgroup": ([by(cgroups=("/machine/pod-a",))], True),
    "R-34 a path below": ([by(pod_sub_cgroups=("/machine/pod-a/app/x",))], True),
    "R-34 itself": ([by(pod_sub_cgroups=("/machine/pod-a",))], True),
    "R-37 a sibling that begins alike": ([by(pod_sub_cgroups=("/machine/pod-ab",))], False),
}


def test_the_root_cgroup_is_nobodys_parent() -> None:
    pod = POD.model_copy(update={"cgroup": "/"})
    assert not pods_match(pod, [by(pod_sub_cgroups=("/machine/pod-a",))])
    assert pods_match(pod, [by(pod_sub_cgroups=("/",))])


@pytest.mark.parametrize("case", PODS)
def test_pod_filters(case: str) -> None:
    filters, passes = PODS[case]
    assert pods_match(POD, filters) is passes


def like(**conditions: Any) -> ImageFilter:
    return ImageFilter(**conditions)


IMAGE_RIGHT = {
    "ids": ("sha512-a",),
    "prefixes": ("example.com/",),
    "base_names": ("x",),
    "keywords": ("foo",),
    "labels": (("os", "linux"),),
    "imported_after": 1023,
    "imported_before": 1025,
    "annotations": (("built", "here"),),
    "full_names": ("example.com/foo/x",),
}
IMAGE_WRONG = {**IMAGE_RIGHT, "base_names": ("y",)}

IMAGES: dict[str, tuple[list[ImageFilter], bool]] = {
    "R-14 id": ([like(ids=("other", "sha512-a"))], True),
    "R-14 another id": ([like(ids=("other",))], False),
    "R-15 prefix": ([like(prefixes=("other", "example.com/f"))], True),
    "R-15 no prefix": ([like(prefixes=("foo",))], False),
    "R-16 base name": ([like(base_names=("x",))], True),
    "R-16 no base name": ([like(base_names=("foo",))], False),
    "R-17 keyword": ([like(keywords=("nothing", "foo"))], True),
    "R-17 no keyword": ([like(keywords=("1",))], False),
    "R-18 all labels": ([like(labels=(("os", "linux"), ("arch", "amd64")))], True),
    "R-18 an extra label": ([like(labels=(("os", "linux"), ("libc", "musl")))], False),
    "R-18 a wrong value": ([like(labels=(("os", "plan9"),))], False),
    "R-19 all annotations": ([like(annotations=(("built", "here"),))], True),
    "R-19 an extra one": ([like(annotations=(("built", "here"), ("by", "me")))], False),
    "R-19 a wrong value": ([like(annotations=(("built", "there"),))], False),
    "R-20 after 1023": ([like(imported_after=1023)], True),
    "R-20 after 1024": ([like(imported_after=1024)], False),
    "R-21 before 1025": ([like(imported_before=1025)], True),
    "R-21 before 1024": ([like(imported_before=1024)], False),
    "R-22 full name": ([like(full_names=("example.com/foo/x",))], True),
    "R-22 not exact": ([like(full_names=("example.com/foo",))], False),
    "R-23 all right": ([like(**IMAGE_RIGHT)], True),
    "R-23 one wrong": ([like(**IMAGE_WRONG)], False),
    "R-24 no filter": ([], True),
    "R-24 both": ([like(), like(**IMAGE_RIGHT)], True),
    "R-24 one of two": ([like(**IMAGE_WRONG), like(**IMAGE_RIGHT)], True),
    "R-24 none": ([like(**IMAGE_WRONG), like(ids=("other",))], False),
}


@pytest.mark.parametrize("case", IMAGES)
def test_image_filters(case: str) -> None:
    filters, passes = IMAGES[case]
    assert images_match(IMAGE, filters) is passes


def test_r08_every_condition_alone_keeps_a_pod_out() -> None:
    for name, wrong in ALL_WRONG.items():
        assert not pods_match(POD, [by(**{**ALL_RIGHT, name: wrong})]), name


@pytest.mark.parametrize("state", PodState)
def test_what_is_shown_depends_on_the_state(state: PodState) -> None:
    """R-30, R-31, R-35: manifests with detail alone, marks on garbage, cgroups on what runs."""
    pod = POD.model_copy(update={"state": state})
    told, whole = pod.shown(detail=False), pod.shown(detail=True)
    hidden = state in {PodState.EMBRYO, PodState.PREPARING, PodState.ABORTED_PREPARE}
    assert not told.manifest
    assert bool(whole.manifest) is not hidden
    assert (told.pid, bool(told.apps)) == ((-1, False) if hidden else (42, True))
    assert bool(told.cgroup) is (state is PodState.RUNNING)
    assert bool(told.marked_ns) is (state is PodState.GARBAGE)
    assert bool(told.networks) is (state in {PodState.RUNNING, PodState.EXITED})
    assert bool(told.created_ns) is not hidden


def test_r46_a_pod_is_found_by_the_beginning_of_its_id() -> None:
    other = POD.model_copy(update={"id": "11112222-0000-5000-8000-000000000000"})
    assert pod_of([POD, other], "11111111-2222-5") is POD
    assert pod_of([POD, other], POD.id.upper()) is POD
    with pytest.raises(Invalid, match="2 pods have ids that begin with 1111"):
        pod_of([POD, other], "1111")
    with pytest.raises(Invalid, match="missing"):
        pod_of([POD], "")
    with pytest.raises(NotFound, match="no pod abc"):
        pod_of([POD], "abc")


def test_r46_an_image_is_found_by_all_of_its_id() -> None:
    assert image_of([IMAGE], "sha512-a") is IMAGE
    with pytest.raises(NotFound, match="no image sha512"):
        image_of([IMAGE], "sha512")
    with pytest.raises(Invalid, match="missing"):
        image_of([IMAGE], "")


def test_a_pod_has_the_same_id_for_all_who_know_what_it_is_of() -> None:
    assert pod_id("", "web-1", 2) == pod_id("", "web-1", 2)
    assert len({pod_id(tenant, "web-1", each) for tenant in ("", "a") for each in (1, 2)}) == 4


def test_what_an_absent_node_said_last_is_no_truth_unless_it_was_the_end() -> None:
    app = App(name="app", image=Image(id="i"), state=AppState.RUNNING)
    for state in PodState:
        pod = Pod(id="a", state=state, apps=(app,), cgroup="/a", pid=7, started_ns=1)
        away = pod.on_node_away("lost")
        if state in ENDED:
            assert away == pod
            continue
        assert (away.state, away.apps[0].state) == (PodState.UNDEFINED, AppState.UNDEFINED)
        assert away.annotation(NODE_STATE) == "lost"
        shown = away.shown(detail=False)
        assert (shown.cgroup, shown.pid, shown.started_ns) == ("", 7, 1)
        assert not pods_match(away, [PodFilter(states=(PodState.RUNNING,))])
