"""Where a tree stands on a chain: pristine, patched up to a topic, or modified by somebody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from toolkit.model.chain import Chain, FileChain
from toolkit.model.ids import BlobId, TopicId


class State(StrEnum):
    """A tree's place, in one word."""

    PRISTINE = "pristine"
    PARTIAL = "partial"
    """Patched up to a topic that is not the last."""
    PATCHED = "patched"
    MODIFIED = "modified"


class DeviationKind(StrEnum):
    """How a file differs from what its level asks for."""

    MISSING = "missing"
    OTHER_LEVEL = "other-level"
    """Its bytes are those of another level of the chain."""
    UNKNOWN = "unknown"
    """Its bytes stand nowhere on the chain: somebody edited it."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """A file that is not as its level asks for.

    Attributes:
        topic: the last topic up to the level that changed the file; the first that changes it when none has yet.
        expected: id at the level; None when the file should not be there.
        found: id found; None when the file is not there.
        level: where on the chain the found bytes stand, nearest to the tree's level; None for unknown bytes.
    """

    path: str
    topic: TopicId | None
    kind: DeviationKind
    expected: BlobId | None
    found: BlobId | None
    level: int | None


@dataclass(frozen=True, slots=True)
class Standing:
    """A tree's place on a chain.

    Attributes:
        level: 0 is pristine, k is patched up to topic k; with deviations the level that most files agree with.
        last: the level of the whole series.
        topic: the level's topic; None at level 0.
        deviations: files that differ from the level, by path.
    """

    level: int
    last: int
    topic: TopicId | None
    deviations: tuple[Deviation, ...] = ()

    @property
    def state(self) -> State:
        """The place in one word."""
        if self.deviations:
            return State.MODIFIED
        if self.level == self.last:
            return State.PATCHED
        return State.PARTIAL if self.level else State.PRISTINE


def locate(chain: Chain, current: Mapping[str, BlobId | None]) -> Standing:
    """Return where a tree stands; of two levels that fit equally well the higher one.

    Args:
        chain: the chain of a series.
        current: ids of the tree's files; None, or no entry, where there is no file. Other files are ignored.
    """
    last = len(chain.topics)
    agreeing = [sum(current.get(file.path) == file.ids[level] for file in chain.files) for level in range(last + 1)]
    level = max(range(last + 1), key=lambda at: (agreeing[at], at))
    deviations = tuple(
        _deviation(chain, file, level, current.get(file.path))
        for file in chain.files
        if current.get(file.path) != file.ids[level]
    )
    return Standing(level, last, chain.topics[level - 1] if level else None, deviations)


def _deviation(chain: Chain, file: FileChain, level: int, found: BlobId | None) -> Deviation:
    changed = [at for at in range(1, len(file.ids)) if file.ids[at] != file.ids[at - 1]]
    owners = [at for at in changed if at <= level][-1:] or changed[:1]
    same = [at for at, name in enumerate(file.ids) if name == found]
    nearest = min(same, key=lambda at: abs(at - level)) if same else None
    kind = DeviationKind.UNKNOWN if nearest is None else DeviationKind.OTHER_LEVEL
    return Deviation(
        path=file.path,
        topic=chain.topics[owners[0] - 1] if owners else None,
        kind=DeviationKind.MISSING if found is None else kind,
        expected=file.ids[level],
        found=found,
        level=nearest,
    )
