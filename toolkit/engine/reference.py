"""What every file of a tree must be, by RECORD, by the pin's file index and by the build manifest; and what differs.

The files of the chain are not judged here: RECORD describes the tree as it was packed, the chain every step of it.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from toolkit.engine.leftovers import is_leftover
from toolkit.engine.record import RecordEntry
from toolkit.model.build import MANIFEST_PATH, BuildManifest
from toolkit.model.ids import Sha256

FileIndex = Mapping[str, tuple[Sha256, int]]
"""Path -> sha256 and bytes of every file of a pin's source."""

_URLSAFE = str.maketrans("-_", "+/")
_DIGEST_BYTES = 32
_UNREADABLE = Sha256("unreadable")
"""Equals no file's hash, so that a damaged line of RECORD is noticed."""
_REBUILT = "vllm/_version.py"
_MADE_BY_SDIST = ("PKG-INFO", "setup.cfg", _REBUILT)
_MADE_FOLDER = "vllm.egg-info/"
_EXTENSION = re.compile(r"([^/.]+)(\.[^/]+)?\.(so|pyd)")


class Basis(StrEnum):
    """What says how a file must be."""

    RECORD = "RECORD"
    INDEX = "the release's source"
    MANIFEST = "the build manifest"


@dataclass(frozen=True, slots=True)
class Expected:
    """How a file must be; what is None is not known."""

    sha256: Sha256 | None
    size: int | None
    basis: Basis
    optional: bool = False
    """True when it may be missing."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A file that is not as a reference says; ``found`` is '' when it is missing."""

    path: str
    expected: str
    found: str
    basis: Basis


@dataclass(frozen=True, slots=True)
class Extra:
    """A file of the package that no reference knows; ``shadows`` is the module that Python would no longer import."""

    path: str
    shadows: str = ""


def expected_files(
    record: Mapping[str, RecordEntry] | None,
    index: FileIndex | None,
    manifest: BuildManifest | None,
    *,
    outside: bool = False,
) -> dict[str, Expected]:
    """Return how the files of a tree must be.

    Args:
        record: of an installation or a wheel. Where there is one, the index adds its Python modules, so that a RECORD
            that was edited along with them is noticed.
        index: of the pin's source.
        manifest: of a tree that hqtool built; knows the files that the build itself rewrote.
        outside: keep RECORD's lines for files outside the folder, such as scripts.
    """
    expected: dict[str, Expected] = {}
    for path, entry in (record or {}).items():
        inside = not path.startswith("/") and ".." not in path.split("/")
        if entry.digest and (inside or outside) and not is_leftover(path.rpartition("/")[2]):
            size = int(entry.size) if entry.size.isdecimal() else None
            # pip install --target moves scripts away from where RECORD says that they are.
            expected[path] = Expected(_hexadecimal(entry.digest), size, Basis.RECORD, optional=not inside)
    for path, (digest, size) in (index or {}).items():
        if record is None:
            made = path in _MADE_BY_SDIST or path.startswith(_MADE_FOLDER)
            expected[path] = Expected(digest, size, Basis.INDEX, optional=made)
        elif path.startswith("vllm/") and path.endswith(".py") and path != _REBUILT:
            expected[path] = Expected(digest, size, Basis.INDEX)
    if manifest is not None:
        for path, digest in manifest.generated.items():
            expected[path] = Expected(digest, None, Basis.MANIFEST)
        if manifest.kernels is not None:
            kernels = manifest.kernels
            expected[kernels.path] = Expected(kernels.sha256, kernels.size, Basis.MANIFEST)
    return expected


def to_hash(expected: Mapping[str, Expected], sizes: Mapping[str, int], *, full: bool) -> list[str]:
    """Return the files whose bytes must be read: Python's and the manifest, or all; one of the wrong size need not be.

    Args:
        expected: how the files must be.
        sizes: path -> bytes of the files that are there.
        full: hash every file whose hash is known.
    """
    return [
        path
        for path, wanted in expected.items()
        if wanted.sha256 is not None
        and path in sizes
        and (full or path.endswith(".py") or path == MANIFEST_PATH)
        and wanted.size in (None, sizes[path])
    ]


def differences(
    expected: Mapping[str, Expected], sizes: Mapping[str, int], hashes: Mapping[str, Sha256]
) -> Iterator[Difference]:
    """Yield the files that are missing, or have another size or hash than they must.

    Args:
        expected: how the files must be.
        sizes: path -> bytes of the files that are there.
        hashes: of the files that `to_hash` named.
    """
    for path, wanted in sorted(expected.items()):
        if path not in sizes:
            if not wanted.optional:
                yield Difference(path, "a file", "", wanted.basis)
        elif wanted.size not in (None, sizes[path]):
            yield Difference(path, f"{wanted.size:,} bytes", f"{sizes[path]:,} bytes", wanted.basis)
        elif path in hashes and hashes[path] != wanted.sha256:
            yield Difference(path, f"sha256 {(wanted.sha256 or '')[:12]}", f"sha256 {hashes[path][:12]}", wanted.basis)


def extras(paths: Collection[str], known: Collection[str]) -> Iterator[Extra]:
    """Yield Python files of the package that nothing knows, and whatever hides a known module from Python's import.

    A package hides a module of its name in the same folder, and so does an extension module; a new module hides
    nothing. Other unknown files are passed over: people add tuned configurations.

    Args:
        paths: of the files that are there.
        known: paths of every reference and of the chain.
    """
    modules = frozenset(known)
    for path in sorted(paths):
        if path in modules or not path.startswith("vllm/"):
            continue
        hidden = _hidden_by(path)
        if hidden in modules:
            yield Extra(path, hidden)
        elif path.endswith(".py") and not is_leftover(path.rpartition("/")[2]):
            yield Extra(path)


def _hidden_by(path: str) -> str:
    """Return the module that a file of that path would hide, '' when it cannot hide any."""
    folder, _, name = path.rpartition("/")
    if name in ("__init__.py", "__init__.pyc"):
        return f"{folder}.py"
    extension = _EXTENSION.fullmatch(name)
    return f"{folder}/{extension[1]}.py" if extension else ""


def _hexadecimal(digest: str) -> Sha256 | None:
    """Return RECORD's urlsafe base64 as hexadecimal digits; None for another algorithm."""
    algorithm, _, text = digest.partition("=")
    if algorithm != "sha256":
        return None
    try:
        # base64.urlsafe_b64decode takes five times as long, and there are 5,800 lines.
        raw = binascii.a2b_base64(f"{text}=".translate(_URLSAFE))
    except (binascii.Error, ValueError):
        return _UNREADABLE
    return Sha256(raw.hex()) if len(raw) == _DIGEST_BYTES else _UNREADABLE
