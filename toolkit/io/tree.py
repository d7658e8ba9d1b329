"""A folder that holds a source tree: read by path, copied, and never left."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from toolkit.model.errors import CheckError, UsageError
from toolkit.model.ids import Sha256
from toolkit.model.progress import Progress

_REPOSITORY = ".git"


def _keep_all(name: str) -> bool:
    del name
    return False


class FolderTree:
    """The files under a folder, by their path inside it (``vllm/config.py``).

    Args:
        root: the folder.
        skip: says which names of files and folders do not belong to the tree; git's own folder never does.
    """

    def __init__(self, root: Path, skip: Callable[[str], bool] = _keep_all) -> None:
        self.root = root
        self._skip = skip

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes, None when there is no such file.

        Raises:
            UsageError: the path is absolute or climbs with ``..``.
            CheckError: a symbolic link leads out of the tree, or a folder has that name.
        """
        place = self._place(path)
        if not place.resolve().is_relative_to(self.root.resolve()):
            raise CheckError(
                f"{place} lies outside its tree",
                cause="a symbolic link on the way leads out of it",
                fix="use a source tree whose files are its own",
            )
        try:
            return place.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except IsADirectoryError:
            raise CheckError(f"{place} is a folder", cause="a file is expected there") from None

    def write(self, path: str, data: bytes | None) -> None:
        """Replace a file, keeping its mode; make it, with its folders, when there is none; remove it for None.

        Raises:
            UsageError: the path is absolute or climbs with ``..``.
            CheckError: it, or a folder above it, is a symbolic link.
        """
        place = self._place(path)
        if place.resolve() != self.root.resolve() / path:
            raise CheckError(
                f"{place} is not written",
                cause="a symbolic link is or leads to that file, so that another one would change",
                fix="use a source tree whose files are its own",
            )
        mode = place.stat().st_mode if place.exists() else None
        place.unlink(missing_ok=True)
        if data is None:
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        if mode is not None:
            place.chmod(mode)

    def files(self) -> Iterator[str]:
        """Yield the paths of all regular files and symbolic links; links are not followed."""
        for folder, below, names in os.walk(self.root):
            linked = [name for name in below if Path(folder, name).is_symlink()]
            below[:] = sorted(name for name in below if name not in linked and not self._hidden(name))
            for name in sorted([*names, *linked]):
                place = Path(folder, name)
                if not self._hidden(name) and (place.is_symlink() or place.is_file()):
                    yield place.relative_to(self.root).as_posix()

    def copy_to(self, target: Path, progress: Progress) -> None:
        """Copy every file to a folder, with modes and times; links stay links, nothing is shared with the source."""
        paths = list(self.files())
        task = progress.task(f"copying {self.root.name}", len(paths), unit="files")
        try:
            for path in paths:
                place = target / path
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self.root / path, place, follow_symlinks=False)
                task.advance(1)
        finally:
            task.finish()

    def digest(self) -> Sha256:
        """Return the sha256 of the tree: of the listing that ``sha256sum`` gives of its regular files, by path."""
        listing = hashlib.sha256()
        for path in sorted(self.files()):
            place = self.root / path
            if not place.is_symlink():
                with place.open("rb") as file:
                    listing.update(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path}\n".encode())
        return Sha256(listing.hexdigest())

    def _hidden(self, name: str) -> bool:
        return name == _REPOSITORY or self._skip(name)

    def _place(self, path: str) -> Path:
        if not path or path.startswith("/") or ".." in path.split("/"):
            raise UsageError(f"{path!r} is not a path inside a tree", cause="it is absolute, empty or climbs with '..'")
        return self.root / path
