"""The chain that a series states without any tree: its patches' ``index`` lines name the ids before and after."""

from __future__ import annotations

from toolkit.engine.patch_reader import read_patch
from toolkit.model.chain import Chain, FileChain
from toolkit.model.errors import UsageError
from toolkit.model.ids import BlobId, blob_id
from toolkit.model.patch import Change, FilePatch
from toolkit.model.topic import Series, TopicSource


def stated_chain(series: Series) -> Chain:
    """Return the chain of a series.

    Raises:
        UsageError: a patch cannot be read, states no ids, or starts from other bytes than the topics before it leave.
            The last happens too when a topic is left out and a later one changes the same file: that chain is known
            only once the series is applied to a tree.
    """
    links = _Links()
    for source in series.topics:
        links.add(source)
    if links.broken:
        raise UsageError(
            f"the patches for vLLM {series.pin} do not follow one another",
            details=links.broken,
            fix="export the topics again, each on top of the ones before it",
        )
    files = [FileChain(path, tuple(ids)) for path, ids in sorted(links.ids.items())]
    return Chain(series.ids, tuple(files))


class _Links:
    def __init__(self) -> None:
        self.ids: dict[str, list[BlobId | None]] = {}
        self.broken: list[str] = []
        self._length = 1

    def add(self, source: TopicSource) -> None:
        """Append one topic's ids; a file that it leaves alone keeps the last one."""
        topic = source.topic.id
        after: dict[str, BlobId | None] = {}
        for patch in read_patch(source.patch):
            if patch.old_blob is None and patch.new_blob is None:
                self.broken.append(f"topic {topic}, {patch.path}: its patch states no ids")
                continue
            if patch.old_path and patch.old_path != patch.new_path:
                after.setdefault(patch.old_path, None)
            if patch.new_path:
                after[patch.new_path] = patch.new_blob
            self._follow(topic, patch)
        for path, data in source.files.items():
            self._expect(topic, path, None)
            after[path] = blob_id(data)
        for path, ids in self.ids.items():
            ids.append(after.get(path, ids[-1]))
        self._length += 1

    def _follow(self, topic: str, patch: FilePatch) -> None:
        if patch.old_path:
            self._expect(topic, patch.old_path, patch.old_blob)
        if patch.change in (Change.CREATE, Change.RENAME) and patch.new_path not in self.ids:
            self._expect(topic, patch.path, None)

    def _expect(self, topic: str, path: str, before: BlobId | None) -> None:
        """Hold what a topic starts from against what is there; the first topic to touch a file states upstream's id."""
        ids = self.ids.setdefault(path, [before] * self._length)
        if ids[-1] != before:
            there, starts = ids[-1] or "no file", before or "no file"
            self.broken.append(f"topic {topic}, {path}: starts from {starts}, but {there} is there")
