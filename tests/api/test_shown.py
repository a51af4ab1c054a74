"""What is kept of pods that were shown is what would be shown of them now."""

from api.rkt import convert
from api.rkt.shown import Shown
from domain.pod import Pod, PodState


def pod(number: int, **more: object) -> Pod:
    told = {"id": f"p{number}", "state": PodState.RUNNING, "manifest": "{}", **more}
    return Pod.model_validate(told)


def test_each_is_shown_as_it_is_with_detail_and_without() -> None:
    shown, one, other = Shown(), pod(1, pid=7), pod(2)
    for detail in (False, True, False, True):
        told = [convert.pod(each.shown(detail=detail)) for each in (one, other)]
        assert list(shown.pods([one, other], detail=detail).pods) == told
    assert shown.pod(one, detail=True) is shown.pod(one, detail=True)
    later = one.model_copy(update={"state": PodState.EXITED, "pid": -1})
    (told_later,) = shown.pods([later], detail=True).pods
    assert told_later == convert.pod(later.shown(detail=True))


def test_no_more_are_kept_than_the_limit() -> None:
    shown = Shown(most=2)
    pods = [pod(number) for number in range(5)]
    first = shown.pod(pods[0], detail=False)
    told = shown.pods(pods, detail=False).pods
    assert [each.id for each in told] == ["p0", "p1", "p2", "p3", "p4"]
    again = shown.pod(pods[0], detail=False)
    assert again == first
    assert again is not first
