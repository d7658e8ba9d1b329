"""PATCHES.md: what every topic is for and what it changes, rendered from the manifests and patches alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from toolkit.engine.patch_reader import read_patch
from toolkit.model.patch import Change, FilePatch, Mark
from toolkit.model.pin import Pins
from toolkit.model.topic import Knob, Numbers, RetireCondition, Series, SeriesEntry, SeriesOrder, Topic, TopicSource

_HEAD = """\
# Patches

`hqtool topics --write` renders this page from `patchsets/`, and `hqtool topics --verify` fails when it is out of date:
change the manifests, not this page. [docs/topics.md](docs/topics.md) describes their format.
"""


@dataclass(frozen=True, slots=True)
class Touched:
    """One upstream file that a patch changes, and by how many lines."""

    path: str
    change: Change
    added: int
    removed: int


def touched(patch: bytes) -> tuple[Touched, ...]:
    """Return the files that a topic's patch changes, in its order.

    Raises:
        UsageError: the patch cannot be read.
    """
    return tuple(_count(file) for file in read_patch(patch))


def render_page(pins: Pins, order: SeriesOrder, series: Mapping[str, Series]) -> str:
    """Return the page.

    Args:
        pins: the supported releases.
        order: the topics' order, with what each requires.
        series: version of a pin -> its topics, for every pin.

    Raises:
        UsageError: a patch cannot be read.
    """
    found = {
        source.topic.id: {
            pin: other for pin in series for other in series[pin].topics if other.topic.id == source.topic.id
        }
        for pin in series
        for source in series[pin].topics
    }
    listed = [(entry, found[entry.id]) for entry in order.topics if entry.id in found]
    releases = ", ".join(
        f"{pin.version} (default)" if pin.version == pins.default else pin.version for pin in pins.pins
    )
    parts = [_HEAD, f"Revision {order.revision} of the series (`hq{order.revision}`), for vLLM {releases}.\n"]
    if listed:
        parts.append(_overview(listed))
    parts += ["\n".join(_topic_lines(entry, by_pin)) + "\n" for entry, by_pin in listed]
    return "\n".join(parts)


def _count(file: FilePatch) -> Touched:
    marks = [line.mark for hunk in file.hunks for line in hunk.lines]
    return Touched(file.path, file.change, marks.count(Mark.ADD), marks.count(Mark.REMOVE))


def _overview(listed: list[tuple[SeriesEntry, dict[str, TopicSource]]]) -> str:
    rows = []
    for entry, by_pin in listed:
        topic = _any(by_pin).topic
        results = "as upstream's" if topic.numbers.lossless else "changed"
        requires = ", ".join(entry.requires) or "nothing"
        rows.append((f"[{topic.id}](#{topic.id})", topic.title, topic.kind.value, requires, ", ".join(by_pin), results))
    return "\n".join(_table(("topic", "title", "kind", "requires", "vLLM", "results"), rows)) + "\n"


def _topic_lines(entry: SeriesEntry, by_pin: dict[str, TopicSource]) -> Iterator[str]:
    source = _any(by_pin)
    topic = source.topic
    yield f"## {topic.id}"
    yield ""
    yield f"**{_flat(topic.title)}** ({topic.kind})"
    yield ""
    yield _flat(topic.what)
    yield ""
    yield f"Why: {_flat(topic.why)}"
    yield ""
    yield from _facts(entry, topic)
    if topic.knobs:
        yield ""
        yield from _table(("knob", "default", "values", "what it does"), [_knob(knob) for knob in topic.knobs])
    for pin, changed in by_pin.items():
        files = touched(changed.patch)
        if files:
            yield ""
            yield f"Hooks in vLLM {pin}: {_lines(sum(f.added for f in files), sum(f.removed for f in files))}"
            yield ""
            rows = [(f"`{f.path}`", f.change.value, f"+{f.added}", f"-{f.removed}") for f in files]
            yield from _table(("file", "change", "added", "removed"), rows)
    new = sorted(source.files) + sorted(f"csrc/{name}" for name in source.kernels)
    if new:
        yield ""
        yield f"New files: {', '.join(f'`{name}`' for name in new)}"


def _facts(entry: SeriesEntry, topic: Topic) -> Iterator[str]:
    upstream = topic.upstream
    references = f": {', '.join(upstream.references)}" if upstream.references else ""
    reason = f" ({_flat(upstream.reason)})" if upstream.reason else ""
    yield f"- upstream: {upstream.state}{references}{reason}"
    for condition in topic.retires_when:
        yield f"- retires when: {_condition(condition)}"
    yield f"- results: {_results(topic.numbers)}"
    yield f"- probe: `{topic.probe}`"
    if entry.requires:
        yield f"- requires: {', '.join(entry.requires)}"


def _condition(condition: RetireCondition) -> str:
    value = f" `{condition.value}`" if condition.value else ""
    reason = f" ({_flat(condition.reason)})" if condition.reason else ""
    return f"{condition.rule}{value}{reason}"


def _results(numbers: Numbers) -> str:
    error = f". {_flat(numbers.error)}" if numbers.error else ""
    return ("the same as upstream's" if numbers.lossless else "changed") + error


def _knob(knob: Knob) -> tuple[str, ...]:
    return f"`{knob.name}`", f"`{knob.default}`", ", ".join(f"`{value}`" for value in knob.values), knob.what


def _lines(added: int, removed: int) -> str:
    return f"{added} lines added, {removed} removed"


def _any(by_pin: dict[str, TopicSource]) -> TopicSource:
    """Return the source for one pin: manifest, new files and kernels are the same for every pin."""
    return next(iter(by_pin.values()))


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield "|" + "---|" * len(header)
    for row in rows:
        yield f"| {' | '.join(_flat(cell).replace('|', chr(92) + '|') for cell in row)} |"


def _flat(text: str) -> str:
    """Return prose on one line, as Markdown's tables and lists need it."""
    return " ".join(text.split())
