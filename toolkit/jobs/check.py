"""Says whether a tree, a wheel or an installation is pristine, patched or modified; reads nothing from the network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from toolkit.engine.build_manifest import load_manifest
from toolkit.engine.examination import Compared, Examination, TargetKind
from toolkit.engine.record import RecordEntry, parse_record
from toolkit.engine.reference import differences, expected_files, extras, to_hash
from toolkit.engine.standing import locate
from toolkit.engine.stated_chain import stated_chain
from toolkit.io.cache import Cache
from toolkit.io.checkable import Checkable, find_installed, open_target
from toolkit.jobs.fetch import load_file_index
from toolkit.jobs.series import load_order, load_pins, load_series
from toolkit.model.build import MANIFEST_PATH, BuildManifest
from toolkit.model.chain import Chain
from toolkit.model.errors import CheckError, UsageError
from toolkit.model.finding import Finding, Severity
from toolkit.model.ids import BlobId, Sha256, blob_id
from toolkit.model.pin import Pin, Pins
from toolkit.model.progress import Progress

_VERSION_MODULE = "vllm/_version.py"
_STATED = re.compile(r"""^(?:__version__|version)\b[^=\n]*=(?:\s*version\s*=)?\s*['"]([^'"\n]+)['"]""", re.MULTILINE)
_METADATA_VERSION = re.compile(r"^Version: *(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """What to look at.

    Attributes:
        target: folder or wheel; what is installed if None.
        python: the interpreter whose vLLM is meant when there is no target.
        pin: the release to compare with; what the target says of itself if None.
        full: hash every file, not only Python's.
    """

    target: Path | None = None
    python: Path | None = None
    pin: str | None = None
    full: bool = False


@dataclass(frozen=True, slots=True)
class _Authority:
    """The chain to hold a tree against, and what was found out while choosing it."""

    chain: Chain
    revision: int
    findings: tuple[Finding, ...] = ()


def check(request: CheckRequest, patchsets: Path, cache: Cache, progress: Progress) -> Examination:
    """Examine a target.

    Args:
        request: what to look at.
        patchsets: folder of the series.
        cache: may hold the file index that a fetch left.
        progress: sees the bytes that are hashed.

    Raises:
        UsageError: there is no such target, it holds no vLLM, or its version is no pin.
        CheckError: a wheel or RECORD that cannot be read.
        EnvironmentUnfitError: the interpreter does not run.
    """
    target = request.target or find_installed(request.python)
    with open_target(target) as tree:
        return _examine(tree, request, patchsets, cache, progress)


def _examine(tree: Checkable, request: CheckRequest, patchsets: Path, cache: Cache, progress: Progress) -> Examination:
    pins = load_pins(patchsets)
    home = tree.metadata_folder()
    kind = TargetKind.WHEEL if tree.is_wheel else TargetKind.INSTALLATION if home else TargetKind.SOURCE
    record = _record(tree, home)
    manifest, findings = _manifest(tree)
    version = _version(tree, home)
    pin = _pin(request, pins, version, manifest)
    authority = _authority(patchsets, pins, pin, manifest)
    findings += authority.findings
    official = home is None or home.startswith(f"{pins.project}-")
    release = _release(pins, pin)
    index = load_file_index(release, cache) if release and official else None
    if record is None and index is None:
        fix = f"hqtool fetch --pin {pin}, then check again"
        findings += (Finding(Severity.NOTE, kind, "only the files that topics touch were compared", fix),)
    if not official:
        findings += (Finding(Severity.NOTE, home or "", f"is not the distribution {pins.project}"),)
    expected = expected_files(record, index, manifest, outside=request.full)
    chained = {file.path for file in authority.chain.files}
    for path in chained:
        expected.pop(path, None)
    sizes = tree.sizes(expected)
    hashes = _hashes(tree, to_hash(expected, sizes, full=request.full), sizes, progress)
    unknown = extras(sizes, expected.keys() | chained) if expected else ()
    return Examination(
        target=tree.label,
        kind=kind,
        version=version,
        pin=pin,
        revision=authority.revision,
        chain=authority.chain,
        standing=locate(authority.chain, _blobs(tree, authority.chain)),
        manifest=manifest,
        differences=tuple(differences(expected, sizes, hashes)),
        extras=tuple(unknown),
        findings=findings,
        compared=Compared(len(chained), len(hashes), len(expected) - len(hashes)),
        full=request.full,
    )


def _record(tree: Checkable, home: str | None) -> Mapping[str, RecordEntry] | None:
    data = tree.read(f"{home}/RECORD") if home else None
    if data is None and tree.is_wheel:
        raise CheckError(
            f"{tree.label} is no wheel", cause="it has no dist-info/RECORD", fix="download or build the wheel again"
        )
    return None if data is None else parse_record(data)


def _manifest(tree: Checkable) -> tuple[BuildManifest | None, tuple[Finding, ...]]:
    data = tree.read(MANIFEST_PATH)
    if data is None:
        return None, ()
    try:
        return load_manifest(data), ()
    except CheckError as error:
        return None, (Finding(Severity.PROBLEM, MANIFEST_PATH, f"cannot be read: {error.cause}", error.fix),)


def _version(tree: Checkable, home: str | None) -> str:
    """Return what the tree says of itself, '' when it says nothing."""
    metadata = tree.read(f"{home}/METADATA") if home else None
    for data, pattern in ((metadata, _METADATA_VERSION), (tree.read(_VERSION_MODULE), _STATED)):
        stated = pattern.search((data or b"").decode("utf-8", errors="replace"))
        if stated:
            return stated[1]
    return ""


def _pin(request: CheckRequest, pins: Pins, version: str, manifest: BuildManifest | None) -> str:
    """Return the release to compare with.

    A build by a newer hqtool brings its own chain, so that its pin need not be known here.
    """
    try:
        stated = manifest.pin if manifest else Version(version).public
    except InvalidVersion:
        stated = ""
    if request.pin is not None:
        wanted = pins.get(request.pin).version
        if stated and stated != wanted:
            raise UsageError(
                f"the target is vLLM {stated}, not {wanted}",
                cause=f"it says that its version is {version or stated}",
                fix="leave --pin out",
            )
        return wanted
    if manifest or _release(pins, stated):
        return stated
    raise UsageError(
        f"vLLM {version} is not supported" if version else "the target does not say which vLLM it is",
        cause=f"the pins are {', '.join(pin.version for pin in pins.pins)}",
        fix="use a pinned release" if version else "name the release with --pin",
    )


def _release(pins: Pins, version: str) -> Pin | None:
    return next((pin for pin in pins.pins if pin.version == version), None)


def _authority(patchsets: Path, pins: Pins, pin: str, manifest: BuildManifest | None) -> _Authority:
    """Return the repository's chain where it has the same topics in the same revision, else the manifest's."""
    if manifest is None:
        series = load_series(patchsets, pin)
        return _Authority(stated_chain(series), series.revision)
    own = _Authority(manifest.chain, manifest.revision)
    order = load_order(patchsets)
    built = [topic.id for topic in manifest.topics]
    known = [entry.id for entry in order.topics if not entry.pins or pin in entry.pins]
    if _release(pins, pin) is None or manifest.revision != order.revision:
        return _noted(own, f"is of revision {manifest.revision} for vLLM {pin}, which is not the series here")
    if [name for name in known if name in built] != built:
        return _noted(own, f"has the topics {', '.join(built)}, which are not those of the series here")
    series = load_series(patchsets, pin, without=tuple(name for name in known if name not in built))
    try:
        chain = stated_chain(series)
    except UsageError:
        return _noted(own, "leaves topics out on which the ids of later ones depend")
    findings = []
    for file in chain.files:
        if file not in manifest.chain.files:
            message = f"states another chain for {file.path} (topic {chain.topic_of(file.path)}) than the series here"
            fix = "build again; raise the revision with every release that changes a topic"
            findings.append(Finding(Severity.PROBLEM, MANIFEST_PATH, message, fix))
    return _Authority(chain, series.revision, tuple(findings))


def _noted(own: _Authority, message: str) -> _Authority:
    note = Finding(Severity.NOTE, MANIFEST_PATH, f"{message}: only its own chain was compared")
    return _Authority(own.chain, own.revision, (note,))


def _hashes(tree: Checkable, paths: list[str], sizes: Mapping[str, int], progress: Progress) -> dict[str, Sha256]:
    task = progress.task("hashing", sum(sizes[path] for path in paths))
    found = {}
    try:
        for path in paths:
            found[path] = tree.sha256(path)
            task.advance(sizes[path])
    finally:
        task.finish()
    return found


def _blobs(tree: Checkable, chain: Chain) -> dict[str, BlobId | None]:
    found: dict[str, BlobId | None] = {}
    for file in chain.files:
        data = tree.read(file.path)
        found[file.path] = None if data is None else blob_id(data)
    return found
