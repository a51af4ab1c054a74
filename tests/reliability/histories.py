"""Random histories: anybody may ask for anything at any moment, while workers die and the world
refuses. What is accepted is foreseen by a model, and in the end everything is as the model says.

A new kind of operation is a rule here, a method of `Grounds` and, if it is refused in other states
than the rest, one of `Model`."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
)

from domain.errors import DomainError
from domain.operation import Operation, Stage
from sim.faults import Fault
from tests.reliability.draws import (
    faults,
    forces,
    names,
    patience,
    pauses,
    pools,
    regrets,
    sizes,
    versions,
)
from tests.reliability.far_world import World
from tests.reliability.grounds import Grounds
from tests.reliability.model import Known, Model, Refusal
from tests.reliability.truth import wrong
from tests.store.invariants import broken
from tests.support.load import limit

SETTLE_SECONDS = 30.0
LOOK_SECONDS = 0.03

Answer = TypeVar("Answer")


class Histories(RuleBasedStateMachine):
    """One history. The loop, and with it the world, runs only while something is being done, so
    what is drawn does not depend on the time; what happens does."""

    grounds: ClassVar[Grounds]
    runner: ClassVar[asyncio.Runner]
    figures: ClassVar[Counter[str]]

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.story: list[str] = []
        self.wrong = False
        self._do(self.grounds.freshen())

    @initialize(
        control_planes=st.sampled_from((1, 1, 3)),
        workers=sizes,
        mishap=faults,
        version=st.sampled_from(("", "", "1.32.4", None)),
        regret=regrets,
        pause=pauses,
    )
    def begin(
        self,
        control_planes: int,
        workers: int,
        mishap: Fault,
        version: str | None,
        regret: str,
        pause: float,
    ) -> None:
        """There is always a cluster, and more often than not an upgrade of it."""
        self.create("apple", control_planes, workers, "", 0.0)
        if version is not None:
            self._at_rest("apple")
            self.go_wrong(mishap)
            self.upgrade("apple", version, True, regret, pause)

    @rule(
        name=names,
        control_planes=st.sampled_from((1, 1, 3)),
        workers=sizes,
        regret=regrets,
        pause=pauses,
    )
    def create(
        self, name: str, control_planes: int, workers: int, regret: str, pause: float
    ) -> None:
        def accepted(operation: Operation | None) -> None:
            assert operation is not None
            self.model.clusters[name] = Known(control_planes, {"w": workers}, operation)

        if self._ask(
            f"create {name} {control_planes} w={workers}",
            name,
            lambda: self.grounds.create(name, control_planes, workers),
            lambda _: self.model.creating(name),
            accepted,
        ):
            self._regret(name, regret, pause)

    @rule(name=names, pool=pools, size=sizes, patient=patience, regret=regrets, pause=pauses)
    def scale(
        self, name: str, pool: str, size: int, patient: bool, regret: str, pause: float
    ) -> None:
        def accepted(operation: Operation | None) -> None:
            self._changed(name, operation).pools[pool] = size

        if self._ask(
            f"scale {name} {pool}={size}",
            self._at_rest(name) if patient else name,
            lambda: self.grounds.scale(name, pool, size),
            lambda busy: self._changing(name, busy) or self.model.resizing(name, pool),
            accepted,
        ):
            self._regret(name, regret, pause)

    @rule(name=names, pool=pools, size=sizes, patient=patience, regret=regrets, pause=pauses)
    def add(
        self, name: str, pool: str, size: int, patient: bool, regret: str, pause: float
    ) -> None:
        def accepted(operation: Operation | None) -> None:
            self._changed(name, operation).pools[pool] = size

        if self._ask(
            f"add {name} {pool}={size}",
            self._at_rest(name) if patient else name,
            lambda: self.grounds.add(name, pool, size),
            lambda busy: self._changing(name, busy) or self.model.adding(name, pool),
            accepted,
        ):
            self._regret(name, regret, pause)

    @rule(name=names, pool=pools, patient=patience, regret=regrets, pause=pauses)
    def drop(self, name: str, pool: str, patient: bool, regret: str, pause: float) -> None:
        def accepted(operation: Operation | None) -> None:
            known = self._changed(name, operation)
            known.pools[pool] = 0
            known.dropped.add(pool)

        if self._ask(
            f"drop {name} {pool}",
            self._at_rest(name) if patient else name,
            lambda: self.grounds.drop(name, pool),
            lambda busy: self._changing(name, busy) or self.model.resizing(name, pool),
            accepted,
        ):
            self._regret(name, regret, pause)

    @rule(name=names, version=versions, patient=patience, regret=regrets, pause=pauses)
    def upgrade(self, name: str, version: str, patient: bool, regret: str, pause: float) -> None:
        version = version or self.model.next_version(name)

        def accepted(operation: Operation | None) -> None:
            known = self._changed(name, operation)
            known.pending, known.upgrading = version, True

        if self._ask(
            f"upgrade {name} {version}",
            self._at_rest(name) if patient else name,
            lambda: self.grounds.upgrade(name, version),
            lambda busy: self.model.upgrading(name, version, self.world.memory, busy=busy),
            accepted,
        ):
            self.figures["upgrades"] += 1
            self._regret(name, regret, pause)

    @rule(name=names, regret=regrets, pause=pauses)
    def repair(self, name: str, regret: str, pause: float) -> None:
        """Fill the places that earlier changes left empty, once nothing else is done."""
        places = self._do(self.grounds.places(self._at_rest(name)))

        def accepted(operation: Operation | None) -> None:
            self._changed(name, operation)

        if self._ask(
            f"repair {name}",
            name,
            lambda: self.grounds.repair(name),
            lambda busy: self.model.repairing(name, places, self.world.memory, busy=busy),
            accepted,
        ):
            self._regret(name, regret, pause)

    @rule(name=names, force=forces)
    def delete(self, name: str, force: bool) -> None:
        def accepted(operation: Operation | None) -> None:
            self._changed(name, operation).deleting = True

        self._ask(
            f"delete {name}{' by force' if force else ''}",
            name,
            lambda: self.grounds.delete(name, force=force),
            lambda _: self.model.deleting(name),
            accepted,
        )

    @rule(name=names, pause=pauses)
    def cancel(self, name: str, pause: float) -> None:
        """Call off whatever was asked for last."""
        self.wait(pause)
        if name in self.model.clusters:
            latest = self.model.clusters[name].operation.id
            self._ask(
                f"cancel {name}",
                name,
                lambda: self.grounds.cancel(latest),
                lambda busy: self.model.cancelling(name, busy=busy),
                lambda _: None,
            )

    @rule(name=names, pause=pauses)
    def pause(self, name: str, pause: float) -> None:
        """Hold whatever was asked for last, and let it go on."""
        if name in self.model.clusters:
            self.story.append(f"{name} is paused for {pause} s")
            self._do(self.grounds.pause(self.model.clusters[name].operation.id, pause))

    @rule(pause=pauses)
    def kill_worker(self, pause: float) -> None:
        self.wait(pause)
        self.story.append("kill the worker")
        self._do(self.grounds.kill_worker())
        self.figures["kills"] += 1

    @rule(fault=faults)
    def go_wrong(self, fault: Fault) -> None:
        self.story.append(f"{fault.where}: {fault.how}, {fault.times} times")
        self.world.faults.add(fault)
        self.figures["faults"] += fault.times

    @rule(index=st.integers(0, 2))
    def sour(self, index: int) -> None:
        """A machine never deploys again."""
        self.story.append(f"machine {index} never deploys again")
        self.world.memory.machines[index].sour = True

    @rule(pause=pauses)
    def wait(self, pause: float) -> None:
        if pause:
            self.story.append(f"{pause} s pass")
            self._do(asyncio.sleep(pause))

    @rule()
    def settle(self) -> None:
        """Wait until nothing is under way, and look at everything."""
        self.story.append("all of it settles")
        self._do(self._settled())

    def teardown(self) -> None:
        """However a history went, everything can be deleted in the end, and nothing is left."""
        if not self.wrong:
            self.settle()
            for name in sorted(self.model.clusters):
                self.delete(name, False)
            self.settle()
            self._nothing_left()
        self.figures["histories"] += 1

    def _regret(self, name: str, regret: str, pause: float) -> None:
        if regret == "cancel":
            self.cancel(name, pause)
        elif regret in ("delete", "force"):
            self.wait(pause)
            self.delete(name, regret == "force")
        elif regret == "pause":
            self.pause(name, pause)
        elif regret:
            self.kill_worker(pause)

    @property
    def world(self) -> World:
        return self.grounds.world

    def _ask(
        self,
        words: str,
        name: str,
        ask: Callable[[], Awaitable[Operation | None]],
        foreseen: Callable[[bool], Refusal],
        accepted: Callable[[Operation | None], None],
    ) -> bool:
        return self._do(self._asked(words, name, ask, foreseen, accepted))

    async def _asked(
        self,
        words: str,
        name: str,
        ask: Callable[[], Awaitable[Operation | None]],
        foreseen: Callable[[bool], Refusal],
        accepted: Callable[[Operation | None], None],
    ) -> bool:
        """Ask, and compare with what was foreseen. If what was under way has ended meanwhile, both
        answers are right: the one before and the one after."""
        busy = await self._busy(name)
        right = [foreseen(busy)]
        operation, refusal = None, None
        try:
            operation = await ask()
        except DomainError as error:
            refusal = type(error)
        if busy and not await self._busy(name):
            right.append(foreseen(False))
        told = refusal.__name__ if refusal else f"op {operation.id[:8]}" if operation else "done"
        self.story.append(f"{words}: {told}")
        self.figures["refused" if refusal else "accepted"] += 1
        if refusal not in right:
            raise AssertionError(f"{words}: {told}, and {right} was foreseen")
        if refusal is None:
            accepted(operation)
            await self._introduce(name)
        return refusal is None

    def _at_rest(self, name: str) -> str:
        """The name, once nothing runs on its cluster."""
        self._do(self._quiet(name))
        return name

    async def _busy(self, name: str) -> bool:
        """Whether something runs on a cluster. The model is told of what has ended."""
        known = self.model.clusters.get(name)
        if known is None:
            return False
        if known.busy:
            operation = await self.grounds.operations.get(known.operation.id)
            if operation.ended is None:
                return True
            if operation.stage is Stage.SUPERSEDED:
                return (
                    False  # whoever was just accepted has the say, and the model is about to know
                )
            self.figures["left behind"] += self.grounds.pick_up(known.uid, operation)
            slots = [] if known.deleting else (await self.grounds.clusters.nodes(name)).slots
            self.model.ended(
                name,
                {state.slot.pool for state in slots},
                well=operation.stage is Stage.SUCCEEDED,
                said=await self.grounds.versions(name),
            )
        return False

    async def _introduce(self, name: str) -> None:
        """Tell the model under which names a new cluster goes in the world."""
        known = self.model.clusters[name]
        if not known.uid:
            plan = await self.grounds.operations.plan(known.operation.id)
            known.uid, known.endpoint = plan.uid, plan.endpoint

    def _changing(self, name: str, busy: bool) -> Refusal:
        return self.model.changing(name, self.world.memory, busy=busy)

    def _changed(self, name: str, operation: Operation | None) -> Known:
        known = self.model.clusters[name]
        if operation is not None:
            known.operation, known.busy = operation, True
        return known

    async def _quiet(self, name: str = "") -> None:
        """Wait until nothing is under way, on one cluster or at all."""
        try:
            async with limit(SETTLE_SECONDS):
                while await self.grounds.under_way(name):  # noqa: ASYNC110 - workers tell nobody
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            left = [
                f"{one.kind} of {one.subject} is {one.stage} {one.waiting_on} (op {one.id})"
                for one in await self.grounds.under_way(name)
            ]
            raise AssertionError(f"after {SETTLE_SECONDS:g} s: {'; '.join(left)}") from None

    async def _settled(self) -> None:
        await self._quiet()
        for name in list(self.model.clusters):
            await self._busy(name)  # which tells the model
        untrue = [*await wrong(self.grounds, self.model), *await broken(self.grounds.database)]
        if untrue:
            raise AssertionError("; ".join(untrue))

    def _nothing_left(self) -> None:
        if self.model.clusters or self.world.memory.leftovers:
            raise AssertionError(f"left: {[*self.model.clusters, *self.world.memory.leftovers]}")

    def _do(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        try:
            return self.runner.run(work)
        except Exception as error:
            self.wrong = True
            error.add_note("\n".join(["What happened:", *self.story]))
            raise
