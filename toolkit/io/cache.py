"""The cache: downloads by hash, and what was made from them; everything in it can be made again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from platformdirs import user_cache_path

from toolkit.model.errors import UsageError
from toolkit.model.ids import Sha256

TAG = "CACHEDIR.TAG"
"""Tells backup programs that the folder is a cache, and `Cache.clear` that it is hqtool's."""
_TAG_TEXT = """\
Signature: 8a477f597d28d172789f06886806bc55
# This folder is the cache of hqtool; everything in it can be made again.
"""
PARTS = ("downloads", "trees", "toolchains", "kernels", "locks")
"""The folders of a cache."""


def _say_nothing() -> None:
    return


class Cache:
    """A folder that several runs of hqtool may share.

    Layout: ``downloads/<sha256>/<file name>``; ``trees``, ``toolchains`` and ``kernels`` by key; ``locks``.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def default(cls) -> Cache:
        """The user's cache folder (XDG_CACHE_HOME on Linux)."""
        return cls(user_cache_path("hqtool"))

    def download(self, digest: Sha256, filename: str) -> Path:
        """Return where a file of that hash lies, or will lie once it is downloaded and verified."""
        return self.root / "downloads" / digest / filename

    def made(self, kind: str, key: str) -> Path:
        """Return the folder of something made from downloads; ``kind`` is trees, toolchains or kernels."""
        return self.root / kind / key

    @contextmanager
    def lock(self, name: str, waiting: Callable[[], None] = _say_nothing) -> Iterator[None]:
        """Hold the named lock, so that two runs never make the same thing at once.

        Args:
            name: of what is made.
            waiting: called once if another run holds it.
        """
        # It brings asyncio: a tenth of a second that most commands need not spend.
        from filelock import FileLock, Timeout

        folder = self.root / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        if not self._tag.exists():
            self._tag.write_text(_TAG_TEXT, encoding="utf-8")
        held = FileLock(folder / f"{name}.lock")
        try:
            held.acquire(timeout=0)
        except Timeout:
            waiting()
            held.acquire()
        try:
            yield
        finally:
            held.release()

    def sizes(self) -> dict[str, int]:
        """Return the bytes that each part of the cache takes on disk."""
        return {part.name: _bytes_under(part) for part in self._parts()}

    def clear(self) -> None:
        """Remove the cache's parts; whatever else lies in the folder stays.

        Raises:
            UsageError: see `require_own`.
        """
        self.require_own()
        for part in self._parts():
            shutil.rmtree(part)

    def require_own(self) -> None:
        """Refuse a folder whose ``downloads`` and such are somebody else's.

        Raises:
            UsageError: hqtool never used the folder as a cache.
        """
        parts = self._parts()
        if parts and not self._tag.is_file():
            raise UsageError(
                f"{self.root} is not a cache of hqtool",
                cause=f"it has {parts[0].name}, but no {TAG}, which hqtool puts into its caches",
                fix="name the cache with --cache; if it is this folder, remove it by hand",
            )

    def _parts(self) -> list[Path]:
        return [self.root / name for name in PARTS if (self.root / name).is_dir()]

    @property
    def _tag(self) -> Path:
        return self.root / TAG


def _bytes_under(folder: Path) -> int:
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # another run may be renaming it just now
                total += Path(base, name).lstat().st_size
    return total
