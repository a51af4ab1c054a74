"""Pods as callers see them. Most have not changed since they were last listed, and the window then
gives the very same ones: what is made of one is kept as long as it is."""

from collections.abc import Iterable

from api.rkt import convert
from domain.pod import Pod
from protos.gen.rkt import api_pb2 as pb

MOST = 20_000
"""So many are kept, and then all are made anew."""


class Shown:
    def __init__(self, *, most: int = MOST) -> None:
        self._most = most
        self._made: dict[tuple[int, bool], tuple[Pod, bytes]] = {}
        """With the pod each was made of, so that no other has its id meanwhile."""

    def pods(self, pods: Iterable[Pod], *, detail: bool) -> pb.ListPodsResponse:
        """All of them. Lists of one, written one after the other, are the list of all: read anew
        that is made sooner than out of messages, of which each would be copied."""
        lists = [self.pod(pod, detail=detail) for pod in pods]
        return pb.ListPodsResponse.FromString(b"".join(lists))

    def pod(self, pod: Pod, *, detail: bool) -> bytes:
        """A list of this one alone, as it is written."""
        key = (id(pod), detail)
        made = self._made.get(key)
        if made is None:
            if len(self._made) >= self._most:
                self._made.clear()
            alone = pb.ListPodsResponse(pods=[convert.pod(pod.shown(detail=detail))])
            made = self._made[key] = pod, alone.SerializeToString()
        return made[1]
