"""Series made for the tests of the kernels' build."""

from __future__ import annotations

from toolkit.model.ids import TopicId
from toolkit.model.topic import Kind, Numbers, RetireCondition, RetireRule, Series, Topic, TopicSource, Upstream
from toolkit.model.topic import UpstreamState as State


def make_series(kernels: dict[str, dict[str, str]]) -> Series:
    """Return a series of topics with nothing but CUDA sources: topic -> file name -> text."""
    sources = []
    for name, files in kernels.items():
        topic = Topic(
            id=TopicId(name),
            title=name,
            kind=Kind.SPEED,
            what="Compiles.",
            why="A test needs it.",
            upstream=Upstream(State.INAPPROPRIATE, "it is for tests"),
            numbers=Numbers(lossless=True),
            probe="tests/none.py",
            retires_when=(RetireCondition(RetireRule.NEVER, reason="it is for tests"),),
        )
        sources.append(TopicSource(topic, b"", kernels={file: text.encode() for file, text in files.items()}))
    return Series("0.33.0", 1, tuple(sources))
