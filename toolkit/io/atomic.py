"""Outputs that appear whole or not at all: written beside their place and renamed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolkit.model.errors import UsageError

PARTIAL = ".hqtool-partial-"


@contextmanager
def atomic_file(target: Path) -> Iterator[Path]:
    """Yield a path beside the target; rename it over the target when the block ends, remove it when it raises.

    What a killed run left beside the target is removed first.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(target)
    try:
        yield partial
        with partial.open("rb+") as written:
            os.fsync(written.fileno())
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder beside the target; rename it to the target when the block ends, remove it when it raises.

    Raises:
        UsageError: the target exists already.
    """
    if target.exists():
        raise UsageError(
            f"{target} exists already",
            cause="hqtool never writes into a folder that it did not make",
            fix="name a folder that does not exist yet, or remove this one",
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(target)
    partial.mkdir()
    try:
        yield partial
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _partial(target: Path) -> Path:
    """Return the path beside the target that this process writes; remove those of processes that are gone."""
    for left in target.parent.glob(f"{PARTIAL}*"):
        owner, _, name = left.name.removeprefix(PARTIAL).partition("-")
        if name != target.name or not owner.isdecimal() or (int(owner) != os.getpid() and _alive(int(owner))):
            continue
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink(missing_ok=True)  # another process may be removing it too
    return target.parent / f"{PARTIAL}{os.getpid()}-{target.name}"


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
