"""Whole sites at the edge out of a file: all it describes is made so, or taken away.

What is there already stays, so that a file may be applied as often as one likes; what stopped half
way is gone on with by asking again."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from cli import edge, messages, records
from cli.calling import READ_SECONDS, Call
from cli.complaints import Code, Complaint
from cli.records import Noun

ORDER = (
    *("flavor", "developer", "operator", "cluster-template", "cloudlet", "app"),
    *("clusterinst", "appinst"),
)
"""Whoever is named comes before those who name them."""

LARGEST = 10 * 1024 * 1024
"""Characters of a file."""

STDIN = "-"


class Step(StrEnum):
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    NOTHING = "nothing"


DONE = {
    Step.CREATE: "created",
    Step.UPDATE: "updated",
    Step.DELETE: "deleted",
    Step.NOTHING: "nothing to do",
}

FORESEEN = {
    **{step: f"would be {done}" for step, done in DONE.items()},
    Step.NOTHING: DONE[Step.NOTHING],
}


@dataclass(frozen=True)
class Wanted:
    """One record of a file."""

    noun: Noun
    name: str
    message: Any
    said: Sequence[str]
    """The paths of all that the file says of it."""


@dataclass(frozen=True)
class Planned:
    wanted: Wanted
    step: Step
    changes: Sequence[str] = ()
    """The paths of what is other than the file says."""


async def apply(call: Call, file: str, *, plan: bool) -> None:
    """Make everything as the file says. What cannot be is found out before anything is changed."""
    planned = [await _to_apply(call, wanted) for wanted in read(file)]
    stuck = [each.wanted for each in planned if each.changes and not each.wanted.noun.updates]
    if stuck:
        raise Complaint(
            "some are there already, are other than the file says, and cannot be changed",
            lines=[f"{wanted.noun.word} {wanted.name}" for wanted in stuck],
            do="delete those first, or give them other names in the file",
        )
    await _carry_out(call, planned, plan=plan)


async def delete(call: Call, file: str, *, plan: bool) -> None:
    """Take everything away that the file describes, those who name others first."""
    planned = [await _to_delete(call, wanted) for wanted in reversed(read(file))]
    await _carry_out(call, planned, plan=plan)


def read(file: str) -> list[Wanted]:
    """What a file describes, in the order in which it can be made. Complains of the first thing
    that is no part of a record."""
    import yaml

    try:
        document = yaml.safe_load(_text(file))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise Complaint(f"{file} cannot be read: {error}", Code.USAGE) from error
    nouns = {f"{noun.word}s": noun for noun in sorted(edge.NOUNS, key=_rank)}
    if not isinstance(document, dict) or not document.keys() <= nouns.keys():
        raise Complaint(
            f"{file} has to be a mapping of nothing but lists of records",
            Code.USAGE,
            do=f"name the lists {', '.join(nouns)}",
        )
    found = [
        wanted
        for section, noun in nouns.items()
        for wanted in _section(f"{file}: {section}", noun, document.get(section))
    ]
    _refuse_twins(found)
    return found


def _rank(noun: Noun) -> int:
    return ORDER.index(noun.word)


def _text(file: str) -> str:
    if file == STDIN:
        text = sys.stdin.read(LARGEST + 1)
    else:
        with Path(file).open() as opened:
            text = opened.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise Complaint(f"{file} has more than {LARGEST} characters", Code.USAGE)
    return text


def _section(where: str, noun: Noun, listed: Any) -> Iterator[Wanted]:
    if not isinstance(listed, list | None):
        raise Complaint(f"{where} has to be a list", Code.USAGE)
    for number, document in enumerate(listed or (), 1):
        message = records.message(noun)
        try:
            said = messages.fill(message, document)
        except Complaint as wrong:
            text = f"{where}, number {number}: {wrong.message}"
            raise Complaint(text, wrong.code, do=wrong.do) from wrong
        plain = messages.plain(message)
        if not all(messages.at(plain, path) for path in noun.key if path not in noun.spared):
            do = f"give it all of {', '.join(noun.key)}"
            raise Complaint(f"{where}, number {number}: its key is not whole", Code.USAGE, do=do)
        yield Wanted(noun, records.name_of(noun, plain), message, said)


def _refuse_twins(found: Iterable[Wanted]) -> None:
    seen = set()
    for wanted in found:
        called = f"{wanted.noun.word} {wanted.name}"
        if called in seen:
            raise Complaint(f"{called} is described twice", Code.USAGE)
        seen.add(called)


async def _to_apply(call: Call, wanted: Wanted) -> Planned:
    there = await _there(call, wanted)
    if there is None:
        return Planned(wanted, Step.CREATE)
    now, then = messages.plain(there), messages.plain(wanted.message)
    changes = [path for path in wanted.said if messages.at(now, path) != messages.at(then, path)]
    return Planned(wanted, Step.UPDATE if changes else Step.NOTHING, changes)


async def _to_delete(call: Call, wanted: Wanted) -> Planned:
    there = await _there(call, wanted)
    return Planned(wanted, Step.NOTHING if there is None else Step.DELETE)


async def _there(call: Call, wanted: Wanted) -> Any:
    """The record as it is now, or None."""
    example = records.message(wanted.noun)
    example.key.CopyFrom(wanted.message.key)
    show = getattr(records.stub(call, wanted.noun), f"Show{wanted.noun.message}")
    shown = [each async for each in show(example, timeout=READ_SECONDS)]
    return next((each for each in shown if each.key == example.key), None)


async def _carry_out(call: Call, planned: Sequence[Planned], *, plan: bool) -> None:
    """Do one after the other. What was done before something failed stays done."""
    words = FORESEEN if plan else DONE
    for each in planned:
        called = f"{each.wanted.noun.word} {each.wanted.name}"
        if each.step is not Step.NOTHING and not plan:
            await _do(call, each, called)
        beside = f" ({', '.join(each.changes)})" if each.changes else ""
        call.page.say(f"{called}: {words[each.step]}{beside}")
    if call.page.for_programs:
        call.page.many(
            [_document(each) for each in planned],
            *((), lambda it: f"{it['noun']}/{it['name']}"),
            none="",
        )


async def _do(call: Call, planned: Planned, called: str) -> None:
    import grpc.aio

    wanted = planned.wanted
    request = records.message(wanted.noun)
    request.CopyFrom(wanted.message)
    described = request.DESCRIPTOR
    request.fields.extend(messages.number(described, path) for path in planned.changes)
    try:
        await records.asked(call, wanted.noun, planned.step.capitalize(), request, "")
    except grpc.aio.AioRpcError:
        call.page.err.print(f"{called}: not {DONE[planned.step]}", markup=False)
        raise


def _document(planned: Planned) -> dict[str, Any]:
    return {
        "noun": planned.wanted.noun.word,
        "name": planned.wanted.name,
        "step": str(planned.step),
        "changes": list(planned.changes),
    }
