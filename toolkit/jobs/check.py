"""Says whether a tree, a wheel or an installation is pristine, patched or modified; reads nothing from the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from toolkit.engine.examination import Compared, Examination
from toolkit.engine.reference import FileIndex, differences, expected_files, extras, to_hash
from toolkit.engine.standing import State, locate
from toolkit.engine.stated_chain import stated_chain
from toolkit.io.cache import Cache
from toolkit.io.checkable import Checkable, find_installed, open_target
from toolkit.jobs.file_index import load_file_index
from toolkit.jobs.series import load_order, load_pins, load_series
from toolkit.jobs.subject import Subject, identify
from toolkit.model.build import MANIFEST_PATH, BuildManifest
from toolkit.model.chain import Chain
from toolkit.model.errors import UsageError
from toolkit.model.finding import Finding, Severity
from toolkit.model.ids import BlobId, Sha256, blob_id
from toolkit.model.progress import Progress


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
        subject = identify(tree, load_pins(patchsets), request.pin)
        authority = _authority(patchsets, subject, tree)
        index = load_file_index(subject.release, cache) if subject.release and subject.official else None
        return _examine(tree, subject, authority, index, progress, full=request.full)


def _examine(
    tree: Checkable,
    subject: Subject,
    authority: _Authority,
    index: FileIndex | None,
    progress: Progress,
    *,
    full: bool,
) -> Examination:
    chained = {file.path for file in authority.chain.files}
    expected = expected_files(subject.record, index, subject.manifest, outside=full)
    expected = {path: wanted for path, wanted in expected.items() if path not in chained}
    sizes = tree.sizes(expected)
    hashes = _hashes(tree, to_hash(expected, sizes, full=full), sizes, progress)
    findings = subject.findings + authority.findings
    known_whole = subject.record is not None or index is not None
    if not known_whole:
        fix = f"hqtool fetch --pin {subject.pin}, then check again"
        findings += (Finding(Severity.NOTE, subject.kind, "only the files that topics touch were compared", fix),)
    return Examination(
        target=tree.label,
        kind=subject.kind,
        version=subject.version,
        pin=subject.pin,
        revision=authority.revision,
        chain=authority.chain,
        standing=locate(authority.chain, _blobs(tree, authority.chain)),
        manifest=subject.manifest,
        differences=tuple(differences(expected, sizes, hashes)),
        extras=tuple(extras(sizes, expected.keys() | chained)) if known_whole else (),
        findings=findings,
        compared=Compared(len(chained), len(hashes), len(expected) - len(hashes)),
        full=full,
    )


def _authority(patchsets: Path, subject: Subject, tree: Checkable) -> _Authority:
    """Return the series' chain, or the manifest's where the tree was built from another series and is as built."""
    manifest, pin = subject.manifest, subject.pin
    if manifest is None:
        series = load_series(patchsets, pin)
        return _Authority(stated_chain(series), series.revision)
    order = load_order(patchsets)
    if subject.release is None or manifest.revision != order.revision:
        return _own(manifest, f"is of revision {manifest.revision} for vLLM {pin}, which is not the series here")
    built = [topic.id for topic in manifest.topics]
    known = [entry.id for entry in order.topics if not entry.pins or pin in entry.pins]
    if [name for name in known if name in built] != built:
        return _own(manifest, f"has the topics {', '.join(built)}, which are not those of the series here")
    series = load_series(patchsets, pin, without=tuple(name for name in known if name not in built))
    try:
        chain = stated_chain(series)
    except UsageError:
        return _own(manifest, "leaves topics out on which the ids of later ones depend")
    contradictions = _contradictions(chain, manifest.chain)
    as_built = bool(contradictions) and locate(manifest.chain, _blobs(tree, manifest.chain)).state is State.PATCHED
    return _Authority(manifest.chain if as_built else chain, series.revision, contradictions)


def _own(manifest: BuildManifest, message: str) -> _Authority:
    note = Finding(Severity.NOTE, MANIFEST_PATH, f"{message}: only its own chain was compared")
    return _Authority(manifest.chain, manifest.revision, (note,))


def _contradictions(series: Chain, built: Chain) -> tuple[Finding, ...]:
    """Return one problem for each topic whose files the manifest states otherwise than the series."""
    differing = set(series.files) ^ set(built.files)
    topics: dict[str, set[str]] = {}
    for file in differing:
        topics.setdefault(series.topic_of(file.path) or built.topic_of(file.path) or "", set()).add(file.path)
    fix = "build again; raise the revision with every release that changes a topic"
    findings = []
    for topic, paths in sorted(topics.items()):
        message = f"has a topic {topic} that is not the series', in the same revision: {', '.join(sorted(paths))}"
        findings.append(Finding(Severity.PROBLEM, MANIFEST_PATH, message, fix))
    return tuple(findings)


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
