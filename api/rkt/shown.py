"""Pods as callers see them. Most have not changed since they were last listed, and the window then
gives the very same ones: what is made of one is kept as long as it is."""

from api.rkt import convert
from domain.pod import Pod
from protos.gen.rkt import api_pb2 as pb

MOST = 20_000
"""So many are kept, and then all are made anew."""


class Shown:
    def __init__(self, *, most: int = MOST) -> None:
        self._most = most
        self._made: dict[tuple[int, bool], tuple[Pod, pb.Pod]] = {}
        """With the pod each was made of, so that no other has its id meanwhile."""

    def pod(self, pod: Pod, *, detail: bool) -> pb.Pod:
        """Its message, which nobody changes."""
        key = (id(pod), detail)
        made = self._made.get(key)
        if made is None:
            if len(self._made) >= self._most:
                self._made.clear()
            made = self._made[key] = pod, convert.pod(pod.shown(detail=detail))
        return made[1]
