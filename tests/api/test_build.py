"""Which Windlass this is, wherever that is written."""

import asyncio
import json
from pathlib import Path

from api.build import UNKNOWN, Build, found


async def git(tree: Path, *words: str) -> None:
    named = ("-c", "user.name=ann", "-c", "user.email=ann@windlass.test")
    process = await asyncio.create_subprocess_exec(
        "git", "-C", str(tree), *named, *words, stdout=asyncio.subprocess.DEVNULL
    )
    assert await process.wait() == 0


async def checkout(tree: Path) -> Path:
    """A tree with one commit."""
    await git(tree, "init", "--quiet")
    (tree / "file").write_text("one")
    await git(tree, "add", "file")
    await git(tree, "commit", "--quiet", "--message", "One")
    return tree


async def test_what_the_build_wrote_down_is_believed(tmp_path: Path) -> None:
    info = tmp_path / "build_info.json"
    info.write_text(json.dumps({"version": "v9.9.9", "commit": "abc", "tree_state": "clean"}))
    build = await found(info, tmp_path)
    assert (build.version, build.commit, build.date) == ("v9.9.9", "abc", UNKNOWN)
    assert build.compiler == "CPython"


async def test_a_checkout_knows_its_commit(tmp_path: Path) -> None:
    tree = await checkout(tmp_path)
    build = await found(tmp_path / "none", tree)
    assert len(build.commit) == 40
    assert build.tree_state == "clean"
    assert build.date.startswith("20")
    (tree / "file").write_text("two")
    assert (await found(tmp_path / "none", tree)).tree_state == "dirty"


async def test_a_tree_inside_another_checkout_is_not_taken_for_it(tmp_path: Path) -> None:
    tree = await checkout(tmp_path)
    inside = tree / "inside"
    inside.mkdir()
    assert (await found(inside / "none", inside)).commit == UNKNOWN


async def test_no_checkout_is_no_failure(tmp_path: Path) -> None:
    build = await found(tmp_path / "none", tmp_path)
    assert (build.commit, build.tree_state, build.date) == (UNKNOWN, UNKNOWN, UNKNOWN)
    assert all(getattr(build, field) for field in Build.model_fields)
