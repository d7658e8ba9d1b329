"""The cache: downloads by hash, and what was made from them; everything in it can be made again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from platformdirs import user_cache_path

from toolkit.model.ids import Sha256

PARTS = ("downloads", "trees", "toolchains", "kernels", "locks")
"""The folders of a cache."""


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
    def lock(self, name: str) -> Iterator[None]:
        """Hold the named lock, so that two runs never make the same thing at once."""
        # It brings asyncio: a tenth of a second that most commands need not spend.
        from filelock import FileLock

        folder = self.root / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f"{name}.lock"):
            yield

    def sizes(self) -> dict[str, int]:
        """Return the bytes that each part of the cache takes on disk."""
        return {name: _bytes_under(self.root / name) for name in PARTS if (self.root / name).is_dir()}

    def clear(self) -> None:
        """Remove the cache's parts; whatever else lies in the folder stays."""
        for name in PARTS:
            if (self.root / name).is_dir():
                shutil.rmtree(self.root / name)


def _bytes_under(folder: Path) -> int:
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            path = Path(base, name)
            if not path.is_symlink():
                total += path.stat().st_size
    return total
