"""Applies a series in memory, records the blob chain, and says where a tree stands on a chain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from toolkit.engine.applier import apply_file
from toolkit.engine.patch_reader import read_patch
from toolkit.model.chain import Chain, FileChain
from toolkit.model.errors import CheckError, UsageError
from toolkit.model.ids import BlobId, TopicId, blob_id
from toolkit.model.patch import Applied, FilePatch, HunkFault, Placement
from toolkit.model.topic import Series

Read = Callable[[str], bytes | None]
"""Gives the bytes of a path of the tree that is patched, None where there is no file."""


class Moved(NamedTuple):
    """A hunk that stands elsewhere than its topic's patch states."""

    topic: TopicId
    path: str
    placement: Placement


class TopicFault(NamedTuple):
    """A hunk, or a whole file when the hunk is 0, that a topic could not apply."""

    topic: TopicId
    fault: HunkFault


class Collision(NamedTuple):
    """A new file of a topic that is there already: from another topic, or from upstream when ``other`` is None."""

    topic: TopicId
    path: str
    other: TopicId | None


class Drift(NamedTuple):
    """A file that is not the one a topic's patch was made from; the patch may apply all the same."""

    topic: TopicId
    path: str
    stated: BlobId
    found: BlobId


@dataclass(frozen=True, slots=True)
class SeriesResult:
    """What a series does to a tree.

    Attributes:
        chain: ids of every file that a topic touches or adds; after a fault a file keeps the id it had.
        outputs: the bytes at the end of each of these files, None when it is deleted.
        offsets: hunks that do not stand exactly where their patch states.
        drifts: links of the chain that do not hold: the file before a topic is not the one its patch states.
        faults: of all topics; one that fails does not stop those after it.
        collisions: new files that were there already.
    """

    chain: Chain
    outputs: dict[str, bytes | None]
    offsets: tuple[Moved, ...] = ()
    drifts: tuple[Drift, ...] = ()
    faults: tuple[TopicFault, ...] = ()
    collisions: tuple[Collision, ...] = ()

    @property
    def applies(self) -> bool:
        """True when every topic went in whole."""
        return not self.faults and not self.collisions


def apply_series(series: Series, read: Read) -> SeriesResult:
    """Apply all topics in order and return what came of it, faults included.

    Args:
        series: the topics of one pin.
        read: gives the bytes of the unpatched tree's files.

    Raises:
        UsageError: patches that cannot be read; it names all of them.
    """
    patches = _read_patches(series)
    run = _Run(read)
    for number, source in enumerate(series.topics):
        run.begin(source.topic.id)
        run.apply(patches[number])
        run.add(source.files)
    return SeriesResult(
        chain=run.chain(series.ids),
        outputs={path: run.now[path] for path in sorted(run.now)},
        offsets=tuple(run.offsets),
        drifts=tuple(run.drifts),
        faults=tuple(run.faults),
        collisions=tuple(run.collisions),
    )


def patch_in_memory(series: Series, read: Read, *, exact: bool = False) -> SeriesResult:
    """Apply all topics, as `apply_series` does, to a tree on which they must apply.

    Args:
        series: the topics of one pin.
        read: gives the bytes of the unpatched tree's files.
        exact: the tree is the pin's own and no topic is left out, so that every link of the chain must hold too.

    Raises:
        UsageError: patches that cannot be read.
        CheckError: faults, collisions or (when exact) drifts; it names all of them.
    """
    result = apply_series(series, read)
    if not result.applies or (exact and result.drifts):
        raise faults_error(result.faults, collisions=result.collisions, drifts=result.drifts if exact else ())
    return result


def faults_error(
    faults: tuple[TopicFault, ...], *, collisions: tuple[Collision, ...] = (), drifts: tuple[Drift, ...] = ()
) -> CheckError:
    """Return one error that names topic, file, hunk and nearest match of everything that went wrong."""
    details = []
    for topic, fault in faults:
        hunk = f", hunk {fault.hunk}" if fault.hunk else ""
        details.append(f"topic {topic}, {fault.path}{hunk}: {fault.reason}")
        if fault.nearest and fault.nearest.matching < fault.nearest.expected:
            near, (expected, found) = fault.nearest, fault.nearest.difference
            details.append(f"  nearest match at line {near.line}: {near.matching} of {near.expected} lines are there;")
            details.append(f"  first difference: expected {_shown(expected)}, found {_shown(found)}")
    for topic, path, other in collisions:
        details.append(f"topic {topic}, {path}: it adds this file, but {other or 'upstream'} has it already")
    for topic, path, stated, drifted in drifts:
        details.append(f"topic {topic}, {path}: made from {stated[:12]}, but the file is {drifted[:12]}")
    topics = [fault.topic for fault in faults]
    topics += [collision.topic for collision in collisions] + [drift.topic for drift in drifts]
    return CheckError(
        f"the series does not apply: {', '.join(dict.fromkeys(topics))}",
        cause="the tree is not the one that these topics were made for",
        details=details,
        fix="use the pin's own source, or cut the topics' patches anew against this tree",
    )


def _shown(line: bytes) -> str:
    """Return the line on one line of text, its odd bytes and its end visible."""
    text = repr(line.decode("utf-8", "backslashreplace"))
    if not line:
        return "the end of the file"
    return text if len(text) <= 100 else f"{text[:96]}...'"


def _read_patches(series: Series) -> list[tuple[FilePatch, ...]]:
    patches, errors = [], []
    for source in series.topics:
        try:
            patches.append(read_patch(source.patch))
        except UsageError as error:
            errors.append(f"topic {source.topic.id}, {error.what}: {error.cause}")
            fix = error.fix
    if errors:
        raise UsageError(f"the series has patches for {series.pin} that cannot be read", details=errors, fix=fix)
    return patches


class _Run:
    """The state while topics are applied one after the other."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._topics: list[TopicId] = []
        self._ids: dict[str, list[BlobId | None]] = {}
        self._added_by: dict[str, TopicId] = {}
        self.now: dict[str, bytes | None] = {}
        self.offsets: list[Moved] = []
        self.drifts: list[Drift] = []
        self.faults: list[TopicFault] = []
        self.collisions: list[Collision] = []

    def begin(self, topic: TopicId) -> None:
        """Start a topic: every known file keeps its id until the topic changes it."""
        for ids in self._ids.values():
            ids.append(ids[-1])
        self._topics.append(topic)

    def apply(self, patches: tuple[FilePatch, ...]) -> None:
        """Apply one topic's patch; all its files are read before any is written, so that renames may swap."""
        topic = self._topics[-1]
        sources = {patch.old_path for patch in patches}
        written: dict[str, bytes | None] = {}
        for patch in patches:
            before = self._get(patch.old_path or patch.path)
            faults, applied = self._try(patch, before, sources)
            if applied is None:
                self.faults += [TopicFault(topic, fault) for fault in faults]
                continue
            self.offsets += [Moved(topic, patch.path, put) for put in applied.placements if put.offset]
            if patch.old_path and patch.old_path != patch.new_path:
                written.setdefault(patch.old_path, None)
            if patch.new_path:
                written[patch.new_path] = applied.data
        for path, data in written.items():
            self._put(path, data)

    def add(self, files: Mapping[str, bytes]) -> None:
        """Add a topic's new files."""
        topic = self._topics[-1]
        for path, data in files.items():
            if self._get(path) is not None:
                self.collisions.append(Collision(topic, path, self._added_by.get(path)))
                continue
            self._put(path, data)
            self._added_by[path] = topic

    def chain(self, topics: tuple[TopicId, ...]) -> Chain:
        """Return the ids of every file seen, by path."""
        return Chain(topics, tuple(FileChain(path, tuple(ids)) for path, ids in sorted(self._ids.items())))

    def _try(
        self, patch: FilePatch, before: bytes | None, sources: set[str | None]
    ) -> tuple[tuple[HunkFault, ...], Applied | None]:
        """Apply one file and hold the outcome against the ids that its patch states."""
        moves = patch.old_path is not None and patch.new_path not in (None, patch.old_path)
        if moves and patch.new_path not in sources and self._get(patch.path) is not None:
            return (HunkFault(patch.path, 0, f"{patch.old_path} is to be renamed to it, but it exists already"),), None
        outcome = apply_file(patch, before)
        found = None if before is None else blob_id(before)
        if patch.old_blob and found and patch.old_blob != found:
            self.drifts.append(Drift(self._topics[-1], patch.old_path or patch.path, patch.old_blob, found))
        if not isinstance(outcome, Applied):
            return outcome, None
        stated = (patch.old_blob, patch.new_blob)
        if stated != (None, None) and found == patch.old_blob and _id(outcome.data) != patch.new_blob:
            return (HunkFault(patch.path, 0, "the patch states other bytes than it produces"),), None
        return (), outcome

    def _get(self, path: str) -> bytes | None:
        """Return a file's bytes as they stand; the first look enters it into the chain."""
        if path not in self.now:
            self.now[path] = self._read(path)
            self._ids[path] = [_id(self.now[path])] * (len(self._topics) + 1)
        return self.now[path]

    def _put(self, path: str, data: bytes | None) -> None:
        self._get(path)
        self.now[path] = data
        self._ids[path][-1] = _id(data)


def _id(data: bytes | None) -> BlobId | None:
    return None if data is None else blob_id(data)
