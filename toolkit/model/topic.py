"""A topic: one change with one purpose, as its manifest ``topic.toml`` describes it; and the series of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from toolkit.model.ids import TopicId


class Kind(StrEnum):
    """What a topic is for."""

    RUNTIME = "runtime"
    MEMORY = "memory"
    SPEED = "speed"
    FIX = "fix"
    BACKPORT = "backport"


class UpstreamState(StrEnum):
    """How upstream stands to the change (the vocabulary of OpenEmbedded's Upstream-Status)."""

    PENDING = "pending"
    SUBMITTED = "submitted"
    BACKPORT = "backport"
    DENIED = "denied"
    INAPPROPRIATE = "inappropriate"


class RetireRule(StrEnum):
    """Conditions under which a topic has done its work."""

    UPSTREAM_CONTAINS = "upstream-contains"
    """``value``: a commit id or pull request number."""
    SYMBOL_EXISTS = "symbol-exists"
    """``value``: dotted name of a module member."""
    HAS_PARAMETER = "has-parameter"
    """``value``: dotted name of a callable and a parameter, ``a.b.call:parameter``."""
    REVERSE_APPLIES = "reverse-applies"
    PROBE_PASSES = "probe-passes"
    NEVER = "never"
    """``reason`` is required."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where the change stands with upstream; ``reason`` is required for denied and inappropriate."""

    state: UpstreamState
    reason: str = ""
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RetireCondition:
    """One executable condition; the topic may go when any of its conditions holds."""

    rule: RetireRule
    value: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Knob:
    """One environment variable that a topic reads (through ``vllm/hq/knobs.py``, which must list the same)."""

    name: str
    default: str
    values: tuple[str, ...]
    what: str


@dataclass(frozen=True, slots=True)
class Numbers:
    """What the topic does to results: nothing, or a measured error and the command that measured it."""

    lossless: bool
    error: str = ""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic's manifest."""

    id: TopicId
    title: str
    kind: Kind
    what: str
    why: str
    upstream: Upstream
    numbers: Numbers
    probe: str
    """Path of the test that fails without the topic and passes with it."""
    retires_when: tuple[RetireCondition, ...]
    knobs: tuple[Knob, ...] = ()


@dataclass(frozen=True, slots=True)
class SeriesEntry:
    """A topic's place in the series."""

    id: TopicId
    requires: tuple[TopicId, ...] = ()
    pins: tuple[str, ...] = ()
    """Pins that have the topic; empty means every pin."""


@dataclass(frozen=True, slots=True)
class SeriesOrder:
    """``series.toml``: the order of topics, and the revision that becomes ``hq<N>`` in the wheel's version."""

    revision: int
    topics: tuple[SeriesEntry, ...]


@dataclass(frozen=True, slots=True)
class TopicSource:
    """A topic together with what it changes for one pin.

    Attributes:
        topic: its manifest.
        patch: bytes of ``<pin>.patch``; empty when the topic changes no upstream file.
        files: new files of the tree by path (``vllm/hq/...``), the same for every pin.
        kernels: CUDA sources by file name.
    """

    topic: Topic
    patch: bytes
    files: dict[str, bytes] = field(default_factory=dict)
    kernels: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Series:
    """The topics of one pin, in order."""

    pin: str
    revision: int
    topics: tuple[TopicSource, ...]

    @property
    def ids(self) -> tuple[TopicId, ...]:
        """The topics' names, first applied first."""
        return tuple(source.topic.id for source in self.topics)
