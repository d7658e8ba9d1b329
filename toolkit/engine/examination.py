"""The outcome of `check`: everything that was found out about a tree, and the report that says it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from toolkit.engine.reference import Difference, Extra
from toolkit.engine.standing import Deviation, DeviationKind, Standing, State
from toolkit.model.build import MANIFEST_PATH, BuildManifest
from toolkit.model.chain import Chain
from toolkit.model.finding import Finding, Report, Severity
from toolkit.model.ids import BlobId

SHOWN = 20
"""Findings of one kind that people get to see; scripts get all of them in the data."""


class TargetKind(StrEnum):
    """In what form a vLLM was looked at."""

    SOURCE = "source tree"
    INSTALLATION = "installation"
    WHEEL = "wheel"


@dataclass(frozen=True, slots=True)
class Compared:
    """How many files were held against what."""

    chain: int
    hashed: int
    sized: int


@dataclass(frozen=True, slots=True)
class Examination:
    """What is known about a tree.

    Attributes:
        target: its path.
        version: what it says of itself.
        pin: the release that it was held against.
        revision: of the series that the chain belongs to.
        chain: what it was held against.
        manifest: the build manifest inside, if there is one.
        differences: files outside the chain that are not as a reference says.
        extras: files that nothing knows.
        findings: about the examination itself.
        full: whether every file was hashed.
    """

    target: str
    kind: TargetKind
    version: str
    pin: str
    revision: int
    chain: Chain
    standing: Standing
    manifest: BuildManifest | None
    differences: tuple[Difference, ...]
    extras: tuple[Extra, ...]
    findings: tuple[Finding, ...]
    compared: Compared
    full: bool

    @property
    def state(self) -> State:
        """The tree's place, over the chain and all other files."""
        if self.standing.deviations or self.differences or any(extra.shadows for extra in self.extras):
            return State.MODIFIED
        return State.PRISTINE if not self.standing.level else self.standing.state


def report(found: Examination) -> Report:
    """Return the report of an examination; a tree that is modified, or less patched than it says, is a problem."""
    fix = _fix(found)
    changed = [_chain_finding(found.chain, item, fix) for item in found.standing.deviations]
    changed += [_file_finding(item, fix) for item in found.differences]
    changed += [
        Finding(Severity.PROBLEM, extra.path, f"is imported instead of {extra.shadows}", "remove it")
        for extra in found.extras
        if extra.shadows
    ]
    notes = [
        Finding(Severity.NOTE, extra.path, "belongs neither to the release nor to a topic")
        for extra in found.extras
        if not extra.shadows
    ]
    findings = (*_shortened(changed), *_incomplete(found, fix), *found.findings, *_shortened(notes))
    return Report("check", _headline(found, len(changed)), _data(found), findings)


def _headline(found: Examination, changed: int) -> str:
    topics = found.chain.topics
    match found.state:
        case State.PRISTINE:
            return f"pristine vLLM {found.pin}"
        case State.PARTIAL:
            return f"vLLM {found.pin}, {_level_name(found)}"
        case State.PATCHED:
            count = "one topic" if len(topics) == 1 else f"{len(topics)} topics"
            return f"fully patched vLLM {found.pin}: {count} of revision {found.revision}"
        case State.MODIFIED:
            files = "one file is" if changed == 1 else f"{changed} files are"
            return f"modified vLLM {found.pin}: {files} not as expected (otherwise {_level_name(found)})"


def _level_name(found: Examination) -> str:
    level, topics = found.standing.level, found.chain.topics
    if not level:
        return "pristine"
    if level == len(topics):
        return "fully patched"
    return f"patched up to topic {level} ({topics[level - 1]}) of {len(topics)}"


def _chain_finding(chain: Chain, item: Deviation, fix: str) -> Finding:
    owner = f"topic {item.topic}: " if item.topic else ""
    if item.kind is DeviationKind.MISSING:
        message = f"is missing; expected {_blob(item.expected)}"
    elif item.level is not None:
        upstream = any(file.path == item.path and file.ids[0] == item.found for file in chain.files)
        place = "upstream has it" if upstream else f"topic {chain.topics[item.level - 1]} left it"
        message = f"is as {place}; expected {_blob(item.expected)}, found {_blob(item.found)}"
    else:
        message = f"was edited; expected {_blob(item.expected)}, found {_blob(item.found)}"
    return Finding(Severity.PROBLEM, item.path, owner + message, fix)


def _blob(name: BlobId | None) -> str:
    return f"blob {name[:12]}" if name else "no file"


def _file_finding(item: Difference, fix: str) -> Finding:
    message = (
        f"was edited; expected {item.expected}, found {item.found} (by {item.basis})"
        if item.found
        else f"is missing (by {item.basis})"
    )
    return Finding(Severity.PROBLEM, item.path, f"no topic changes it: {message}", fix)


def _incomplete(found: Examination, fix: str) -> Iterator[Finding]:
    if found.manifest is not None and found.standing.level < found.standing.last:
        said = ", ".join(found.chain.topics[found.standing.level :])
        yield Finding(Severity.PROBLEM, MANIFEST_PATH, f"says that the tree has {said}, but its files do not", fix)


def _shortened(findings: list[Finding]) -> Iterator[Finding]:
    yield from findings[:SHOWN]
    left = findings[SHOWN:]
    if left:
        yield Finding(left[0].severity, "and more", f"{len(left)} further files; --json lists all of them", left[0].fix)


def _fix(found: Examination) -> str:
    match found.kind:
        case TargetKind.SOURCE:
            return "let hqtool apply write a new tree"
        case TargetKind.INSTALLATION:
            return "install the wheel again: pip install --force-reinstall --no-deps WHEEL"
        case TargetKind.WHEEL:
            return "download or build the wheel again"


def _data(found: Examination) -> dict[str, Any]:
    modified = [
        {"path": item.path, "topic": item.topic, "expected": item.expected, "found": item.found}
        for item in found.standing.deviations
    ]
    modified += [
        {"path": item.path, "topic": None, "expected": item.expected, "found": item.found or None}
        for item in found.differences
    ]
    level = found.standing.level
    return {
        "target": found.target,
        "kind": found.kind.value,
        "version": found.version,
        "pin": found.pin,
        "revision": found.revision,
        "state": found.state.value,
        "level": level,
        "topics": [{"id": name, "applied": at < level} for at, name in enumerate(found.chain.topics)],
        "depth": "full" if found.full else "default",
        "compared": {
            "chain": found.compared.chain,
            "hashed": found.compared.hashed,
            "sized": found.compared.sized,
        },
        "modified": modified,
        "extra": [{"path": extra.path, "shadows": extra.shadows or None} for extra in found.extras],
    }
