"""What `check` can look at, whichever way it is kept: a folder that holds ``vllm/``, or a wheel.

Hashing 3,231 Python files (50 MB) takes a tenth of a second on one core and no less on two: threads would wait for the
interpreter between files that are this small.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from toolkit.model.errors import CheckError, EnvironmentUnfitError, UsageError
from toolkit.model.ids import Sha256

PACKAGE = "vllm"
_SMALL = 1 << 20

_FIND = """\
import importlib.util
spec = importlib.util.find_spec("vllm")
print((spec.origin or "") if spec else "")
"""


class Checkable(Protocol):
    """Files by their path inside the tree, ``vllm/...``."""

    @property
    def label(self) -> str:
        """Its path, for people."""

    @property
    def is_wheel(self) -> bool:
        """Whether it is an archive."""

    def metadata_folder(self) -> str | None:
        """Return the name of vLLM's dist-info folder, None when there is none.

        Raises:
            CheckError: there are several.
        """

    def sizes(self, also: Iterable[str]) -> dict[str, int]:
        """Return path -> bytes for every file of the package and those of the other paths that exist."""

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes, None when there is no such file."""

    def sha256(self, path: str) -> Sha256:
        """Return the hash of a file that exists."""


class Folder:
    """A source tree, a site-packages folder, or any folder that a wheel was unpacked into."""

    is_wheel = False

    def __init__(self, root: Path) -> None:
        self.root = root
        self.label = str(root)

    def metadata_folder(self) -> str | None:
        """Return the dist-info folder whose RECORD owns the package."""
        owners = [
            record.parent.name
            for record in sorted(self.root.glob(f"{PACKAGE}*.dist-info/RECORD"))
            if b"\nvllm/__init__.py," in b"\n" + record.read_bytes()
        ]
        return _only(owners, self.label)

    def sizes(self, also: Iterable[str]) -> dict[str, int]:
        """Scan the package folder; look the other paths up one by one."""
        found = dict(_scan(self.root))
        for path in also:
            if path not in found:
                try:
                    state = (self.root / path).stat()
                except (FileNotFoundError, NotADirectoryError):
                    continue
                if stat.S_ISREG(state.st_mode):
                    found[path] = state.st_size
        return found

    def read(self, path: str) -> bytes | None:
        """Read the whole file."""
        try:
            return (self.root / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def sha256(self, path: str) -> Sha256:
        """Hash a small file in one go, a large one in pieces."""
        with open(f"{self.root}/{path}", "rb", buffering=0) as file:  # noqa: PTH123  Path would double the time
            if os.fstat(file.fileno()).st_size <= _SMALL:
                return Sha256(hashlib.sha256(file.read()).hexdigest())
            return Sha256(hashlib.file_digest(file, "sha256").hexdigest())


class Wheel:
    """A wheel file; close it after use."""

    is_wheel = True

    def __init__(self, path: Path) -> None:
        from toolkit.io.wheel_file import WheelFile

        self._archive = WheelFile(path)
        self.label = str(path)

    def close(self) -> None:
        """Close the archive."""
        self._archive.close()

    def metadata_folder(self) -> str | None:
        """Return the folder of RECORD."""
        names = [name.removesuffix("/RECORD") for name in self._archive.members if name.endswith(".dist-info/RECORD")]
        return _only([name for name in names if "/" not in name], self.label)

    def sizes(self, also: Iterable[str]) -> dict[str, int]:
        """Take the sizes from the archive's directory; every member counts."""
        del also
        return {name: self._archive.info(name).file_size for name in self._archive.members}

    def read(self, path: str) -> bytes | None:
        """Read the whole member."""
        return self._archive.read(path) if path in self._archive.members else None

    def sha256(self, path: str) -> Sha256:
        """Unpack and hash a member."""
        return Sha256(hashlib.sha256(self._archive.read(path)).hexdigest())


@contextmanager
def open_target(target: Path) -> Iterator[Checkable]:
    """Open a folder or a wheel.

    Raises:
        UsageError: there is nothing there, or it holds no vLLM.
        CheckError: the wheel is damaged.
    """
    if not target.exists():
        raise UsageError(
            f"there is no {target}",
            cause="neither a folder nor a file has that name",
            fix="name a folder that holds vllm/, a wheel, or nothing to check the installed vLLM",
        )
    opened: Folder | Wheel = Folder(target) if target.is_dir() else Wheel(target)
    try:
        if opened.read(f"{PACKAGE}/__init__.py") is None:
            raise _no_vllm(target)
        yield opened
    finally:
        if isinstance(opened, Wheel):
            opened.close()


def find_installed(python: Path | None) -> Path:
    """Return the folder from which an interpreter would import vLLM; vLLM is not imported.

    Args:
        python: the interpreter; the first python3 of the PATH if left out, so that an activated environment counts.

    Raises:
        UsageError: that interpreter has no vLLM.
        EnvironmentUnfitError: the interpreter does not run.
    """
    chosen = str(python) if python else shutil.which("python3") or sys.executable
    try:
        # The current folder would come first on sys.path; at the root there is nothing to find by accident.
        done = subprocess.run([chosen, "-c", _FIND], capture_output=True, text=True, check=True, cwd=os.sep, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        shown = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        raise EnvironmentUnfitError(
            f"the interpreter {chosen} does not run",
            cause=shown[-1] if shown else type(error).__name__,
            fix="name a Python with --python",
        ) from error
    origin = done.stdout.strip()
    if not origin:
        raise UsageError(
            f"vLLM is not installed for {chosen}",
            cause="that interpreter finds no package named vllm",
            fix="activate the environment that has it, name its Python with --python, or name a folder or a wheel",
        )
    return Path(origin).parent.parent


def _scan(root: Path) -> Iterator[tuple[str, int]]:
    """Yield (path, bytes) of every file of the package; links are followed as imports do, but into no folder above.

    One loop over a list of folders: recursive generators hand every file through each level, which took a third longer.
    """
    left: list[tuple[str, str, tuple[tuple[int, int], ...]]] = [(f"{root}/{PACKAGE}", PACKAGE, ())]
    while left:
        folder, prefix, above = left.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    state = entry.stat()
                except FileNotFoundError:  # a link that leads nowhere
                    continue
                here = (state.st_dev, state.st_ino)
                if stat.S_ISREG(state.st_mode):
                    yield f"{prefix}/{entry.name}", state.st_size
                elif stat.S_ISDIR(state.st_mode) and here not in above:
                    left.append((entry.path, f"{prefix}/{entry.name}", (*above, here)))


def _only(owners: list[str], label: str) -> str | None:
    if len(owners) > 1:
        raise CheckError(
            f"{label} holds the metadata of several vLLMs",
            cause=f"each of {', '.join(owners)} claims vllm/__init__.py",
            fix="remove the folder that an interrupted installation left behind, or install again",
        )
    return owners[0] if owners else None


def _no_vllm(target: Path) -> UsageError:
    inside = target.name == PACKAGE and (target / "__init__.py").is_file()
    return UsageError(
        f"{target} holds no vLLM",
        cause="it is the package itself, not the folder that holds it" if inside else "it has no vllm/__init__.py",
        fix=f"name {target.parent}" if inside else "name a source tree, a site-packages folder or a wheel of vLLM",
    )
