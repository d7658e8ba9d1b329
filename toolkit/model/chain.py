"""The blob chain: which bytes every touched file has before the series and after each topic."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.ids import BlobId, TopicId


@dataclass(frozen=True, slots=True)
class FileChain:
    """One file's ids: ``ids[0]`` upstream's, ``ids[k]`` after topic k (from 1); None where the file does not exist."""

    path: str
    ids: tuple[BlobId | None, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """The chains of all files that a series touches or adds, over the topics in order."""

    topics: tuple[TopicId, ...]
    files: tuple[FileChain, ...]

    def topic_of(self, path: str) -> TopicId | None:
        """Return the last topic that changed that file, None when no topic did."""
        for chain in self.files:
            if chain.path == path:
                changed = [k for k in range(1, len(chain.ids)) if chain.ids[k] != chain.ids[k - 1]]
                return self.topics[changed[-1] - 1] if changed else None
        return None
