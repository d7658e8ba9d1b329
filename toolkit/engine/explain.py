"""What a build changes, topic by topic, from what the wheel holds about itself."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.engine.build_manifest import load_manifest
from toolkit.engine.sbom import read_diffs
from toolkit.model.build import BuildManifest, BuiltTopic
from toolkit.model.chain import Chain
from toolkit.model.errors import CheckError, UsageError
from toolkit.model.ids import TopicId
from toolkit.model.patch import Change


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that a topic creates, modifies or deletes."""

    path: str
    change: Change


@dataclass(frozen=True, slots=True)
class ExplainedTopic:
    """A topic of the build, the files it changed, and its hooks as a unified diff (empty without hooks)."""

    topic: BuiltTopic
    files: tuple[FileChange, ...]
    diff: bytes


@dataclass(frozen=True, slots=True)
class Explanation:
    """A build and its topics in order, perhaps only those asked for."""

    manifest: BuildManifest
    topics: tuple[ExplainedTopic, ...]


def explain(manifest: bytes, sbom: bytes) -> Explanation:
    """Join manifest and bill of materials.

    Raises:
        CheckError: one of them cannot be read, or they do not belong together.
    """
    build = load_manifest(manifest)
    diffs = read_diffs(sbom)
    if len(diffs) != len(build.topics):
        raise CheckError(
            "manifest and bill of materials do not belong together",
            cause=f"the manifest has {len(build.topics)} topics, the bill of materials {len(diffs)} patches",
            fix="build the wheel again",
        )
    topics = tuple(
        ExplainedTopic(topic, changes(build.chain, topic.id), diff)
        for topic, diff in zip(build.topics, diffs, strict=True)
    )
    return Explanation(build, topics)


def only(explanation: Explanation, topic: str) -> Explanation:
    """Return the explanation with that topic alone.

    Raises:
        UsageError: the build has no such topic.
    """
    topics = tuple(item for item in explanation.topics if item.topic.id == topic)
    if not topics:
        raise UsageError(
            f"this build has no topic {topic!r}",
            cause="it has " + (", ".join(item.topic.id for item in explanation.topics) or "none"),
            fix="name one of these with --topic",
        )
    return Explanation(explanation.manifest, topics)


def changes(chain: Chain, topic: TopicId) -> tuple[FileChange, ...]:
    """Return what one topic does to files, by path."""
    step = chain.topics.index(topic) + 1
    found = []
    for file in sorted(chain.files, key=lambda file: file.path):
        before, after = file.ids[step - 1], file.ids[step]
        if before == after:
            continue
        change = Change.CREATE if before is None else Change.DELETE if after is None else Change.MODIFY
        found.append(FileChange(file.path, change))
    return tuple(found)


def render_notice(manifest: BuildManifest, statement: str) -> bytes:
    """Return the text that lies beside the licence: which files were modified, and by which topic.

    Args:
        manifest: of the build.
        statement: one sentence that says that the build is modified.
    """
    lines = [statement, "The licence is upstream's, in the file LICENSE beside this one.", ""]
    for topic in manifest.topics:
        lines.append(f"{topic.id}: {topic.title}")
        lines += [f"  {item.change.value:<7} {item.path}" for item in changes(manifest.chain, topic.id)]
        lines.append("")
    lines.append("The build itself")
    lines += [f"  modify  {path}" for path in manifest.generated]
    if manifest.kernels is not None:
        lines.append(f"  create  {manifest.kernels.path}")
    return ("\n".join(lines) + "\n").encode()
