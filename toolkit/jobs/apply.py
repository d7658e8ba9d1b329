"""Writes a patched source tree, or says what would be in it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from toolkit.engine.build_manifest import dump_manifest, make_manifest, wheel_version
from toolkit.engine.chain import SeriesResult, patch_in_memory
from toolkit.engine.leftovers import is_leftover
from toolkit.io.atomic import atomic_folder
from toolkit.io.cache import Cache
from toolkit.io.output_folder import prepare_folder
from toolkit.io.tree import FolderTree
from toolkit.jobs.fetch import FetchedSource, SourceKind, fetch_source
from toolkit.model.build import MANIFEST_PATH
from toolkit.model.errors import CheckError, UsageError
from toolkit.model.ids import Sha256
from toolkit.model.pin import Pin, Pins
from toolkit.model.progress import Progress
from toolkit.model.topic import Series

NEEDED = 512 << 20
"""Bytes that a source tree may take; 0.33.0 takes 180 MB on disk."""


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """What to patch.

    Attributes:
        series: the topics, already less those that are left out.
        whole: no topic is left out, so that every link of the chain must hold.
        source: ``sdist``, ``git`` or the path of a tree.
    """

    pin: Pin
    pins: Pins
    series: Series
    whole: bool
    source: str


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What the series does to the source: nothing of it is written by the one who returns it."""

    source: FetchedSource
    patched: SeriesResult


def plan_apply(request: ApplyRequest, cache: Cache, progress: Progress) -> ApplyResult:
    """Apply the series in memory; fetches the source, writes nothing else.

    Raises:
        CheckError: a topic does not apply, or the source is patched already; all topics are tried.
        UsageError: a patch cannot be read.
    """
    source = fetch_source(request.pin, request.pins, request.source, cache, progress)
    tree = FolderTree(source.root)
    if tree.read(MANIFEST_PATH) is not None:
        raise CheckError(
            f"{source.root} is patched already",
            cause=f"it holds {MANIFEST_PATH}, which hqtool writes into the trees that it patches",
            fix="name a tree as upstream released it; hqtool check says how this one stands",
        )
    exact = request.whole and source.kind is not SourceKind.FOLDER
    return ApplyResult(source, patch_in_memory(request.series, tree.read, exact=exact))


def write_apply(request: ApplyRequest, out: Path, cache: Cache, progress: Progress) -> ApplyResult:
    """Write the patched tree to a folder that does not exist yet; it appears whole or not at all.

    Raises:
        CheckError, UsageError: as `plan_apply`; or the folder exists, or lies in the source.
        EnvironmentUnfitError: the folder cannot be written.
    """
    inside = Path(request.source).resolve() if request.source not in (SourceKind.SDIST, SourceKind.GIT) else None
    if inside and out.resolve().is_relative_to(inside):
        raise UsageError(
            f"{out} lies in the source", cause="the copy would contain itself", fix="name a folder outside the source"
        )
    prepare_folder(out.parent, NEEDED)
    with atomic_folder(out) as partial:
        result = plan_apply(request, cache, progress)
        source = FolderTree(result.source.root, skip=is_leftover)
        source.copy_to(partial, progress)
        written = FolderTree(partial)
        for path, data in result.patched.outputs.items():
            written.write(path, data)
        base = result.source.base or source.digest()
        written.write(MANIFEST_PATH, _manifest(request, base, result.patched))
    return result


def _manifest(request: ApplyRequest, base: Sha256, patched: SeriesResult) -> bytes:
    manifest = make_manifest(
        pin=request.pin,
        series=request.series,
        chain=patched.chain,
        base=base,
        version=wheel_version(request.pin, request.series.revision),
        generated={},
        kernels=None,
        tool=f"hqtool {version('hqtool')}",
    )
    return dump_manifest(manifest)
