"""What a stage came to: which sentences hold, which do not, and what was not looked at."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import NamedTuple
from xml.etree import ElementTree

from tests.conformance.processes import EndedBadlyError
from tests.conformance.stage import BUILD, ROOT, MissingError, Stage

_LONGEST = 300


class Outcome(NamedTuple):
    """Of one stage."""

    stage: str
    versions: str = ""
    seconds: float = 0
    proved: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    """Why, once for the whole stage or for each of its tests."""

    @property
    def word(self) -> str:
        if self.failed:
            return "FAILED"
        return "proved" if self.proved else "skipped"


async def carried_out(stage: Stage) -> Outcome:
    """Prepare a stage and run its tests."""
    began = monotonic()
    try:
        versions = await stage.prepare()
    except MissingError as missing:
        return Outcome(stage.name, skipped=(str(missing),), seconds=monotonic() - began)
    except EndedBadlyError as error:
        return Outcome(stage.name, failed=(str(error),), seconds=monotonic() - began)
    report = BUILD / f"{stage.name}.xml"
    report.unlink(missing_ok=True)
    trouble = await _tested(stage, report)
    proved, failed, skipped = _read(report)
    if trouble and not failed:
        failed = (trouble,)
    return Outcome(stage.name, versions, monotonic() - began, proved, failed, skipped)


async def _tested(stage: Stage, report: Path) -> str:
    """Run the tests in a session of their own, of which nothing outlives them. What else is wrong
    than that one failed; empty if nothing is."""
    log = BUILD / f"{stage.name}.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider"),
            *(f"--junitxml={report}", f"--basetemp={BUILD / stage.name}"),
            *("--override-ini=timeout=180", *stage.tests),
            cwd=ROOT,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        code = await asyncio.wait_for(process.wait(), stage.seconds)
    except TimeoutError:
        return f"its tests took more than {stage.seconds:.0f} s (see {log})"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return f"pytest ended with {code} (see {log})" if code else ""


def _read(report: Path) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The sentences that hold, those that do not, and why others were not looked at."""
    if not report.exists():
        return (), (), ()
    proved, failed, skipped = [], [], []
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - our own pytest's
        sentence = case.get("name", "").partition("[")[0].removeprefix("test_").replace("_", " ")
        wrong = [each for kind in ("failure", "error") for each in case.findall(kind)]
        passed_over = case.find("skipped")
        if wrong:
            failed.append(f"{sentence}: {wrong[0].get('message', '')[:_LONGEST]}")
        elif passed_over is not None:
            skipped.append(f"{sentence}: {passed_over.get('message', '')}")
        else:
            proved.append(sentence)
    return tuple(proved), tuple(failed), tuple(skipped)


def table(outcomes: list[Outcome]) -> str:
    """A line for each stage, and under it its sentences."""
    lines = [f"{'stage':12} {'result':8} {'proved':>6} {'seconds':>8}  against"]
    for each in outcomes:
        figures = f"{len(each.proved):6} {each.seconds:8.1f}"
        lines.append(f"{each.stage:12} {each.word:8} {figures}  {each.versions or '-'}".rstrip())
        lines += [f"    + {text}" for text in dict.fromkeys(each.proved)]
        lines += [f"    ! {text}" for text in each.failed]
        lines += [f"    - skipped: {text}" for text in each.skipped]
    words = [each.word for each in outcomes]
    counts = (f"{words.count(word)} {word}" for word in ("proved", "skipped", "FAILED"))
    return "\n".join([*lines, f"stages: {', '.join(counts)}"])
