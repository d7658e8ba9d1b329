"""Reads ``topic.toml`` and ``series.toml``; docs/topics.md describes both for people."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from cattrs import Converter

from toolkit.engine.strict_toml import add_class, read_toml, strict_converter
from toolkit.model.errors import UsageError
from toolkit.model.topic import (
    Kind,
    Knob,
    Numbers,
    RetireCondition,
    RetireRule,
    SeriesEntry,
    SeriesOrder,
    Topic,
    Upstream,
    UpstreamState,
)

SERIES_FILE = "series.toml"
TOPIC_FILE = "topic.toml"

_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_KNOB = re.compile(r"VLLM_HQ(_[A-Z0-9]+)*")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)
_PARAMETER = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+:[A-Za-z_]\w*", re.ASCII)
_COMMIT_OR_PULL = re.compile(r"[0-9a-f]{9,40}|#?[0-9]{1,8}")

_VALUE_FORMS = {
    RetireRule.UPSTREAM_CONTAINS: (_COMMIT_OR_PULL, "a commit id (9 to 40 digits) or the number of a pull request"),
    RetireRule.SYMBOL_EXISTS: (_DOTTED, "a dotted name such as package.module.member"),
    RetireRule.HAS_PARAMETER: (_PARAMETER, "of the form package.module.call:parameter"),
}


def parse_topic(text: str, *, folder: str) -> Topic:
    """Return the topic that a manifest describes.

    Args:
        text: of ``topic.toml``.
        folder: name of the folder that it lies in, which must be the topic's id.

    Raises:
        UsageError: its details list every mistake as ``<folder>/topic.toml: <key>: <problem>``.
    """
    topic, problems = read_toml(_converter(), Topic, text, {"id": folder})
    if topic is None:
        raise invalid(f"the topic {folder!r} has an invalid manifest", f"{folder}/{TOPIC_FILE}", problems)
    return topic


def parse_series(text: str) -> SeriesOrder:
    """Return the order of topics.

    Raises:
        UsageError: its details list every mistake, wrong order of requirements included.
    """
    order, problems = read_toml(_converter(), SeriesOrder, text)
    if order is None:
        raise invalid("the series is invalid", SERIES_FILE, problems)
    return order


def invalid(what: str, file: str, problems: list[str]) -> UsageError:
    """Return the error for a TOML file with these problems."""
    count = "one mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
    return UsageError(
        what,
        cause=f"{count} in {file}",
        details=[f"{file}: {problem}" for problem in problems],
        fix="correct these; docs/topics.md describes the format",
    )


@cache
def _converter() -> Converter:
    converter = strict_converter(Kind, UpstreamState, RetireRule)
    filled = dict.fromkeys(("title", "what", "why"), _not_empty)
    add_class(converter, Upstream, table_rule=_upstream_rule)
    add_class(converter, RetireCondition, table_rule=_retire_rule)
    add_class(converter, Knob, {"name": _knob_name, "what": _not_empty, "values": _some}, _knob_rule)
    add_class(converter, Numbers, table_rule=_numbers_rule)
    add_class(converter, Topic, {**filled, "probe": _probe_path, "retires_when": _some}, _distinct_knobs)
    add_class(converter, SeriesEntry, {"id": _topic_id})
    add_class(converter, SeriesOrder, {"revision": _revision}, _order_rule)
    return converter


def _not_empty(value: str) -> str:
    return "" if value.strip() else "is empty"


def _some(value: tuple[object, ...]) -> str:
    return "" if value else "has no element; at least one is needed"


def _topic_id(value: str) -> str:
    return "" if _ID.fullmatch(value) else f"is {value!r}, not lower-case letters, digits and single hyphens"


def _probe_path(value: str) -> str:
    inside = value.endswith(".py") and not value.startswith("/") and ".." not in value.split("/")
    return "" if inside else f"is {value!r}, not a path from the repository's root that ends in .py"


def _knob_name(value: str) -> str:
    return "" if _KNOB.fullmatch(value) else f"is {value!r}, not VLLM_HQ or VLLM_HQ_... in capitals"


def _revision(value: int) -> str:
    return "" if value >= 1 else f"is {value}; revisions count from 1"


def _upstream_rule(upstream: Upstream) -> Iterator[tuple[str, str]]:
    if upstream.state in (UpstreamState.DENIED, UpstreamState.INAPPROPRIATE) and not upstream.reason.strip():
        yield "reason", f"is needed when state is {upstream.state}"


def _retire_rule(condition: RetireCondition) -> Iterator[tuple[str, str]]:
    form = _VALUE_FORMS.get(condition.rule)
    if form is not None and not form[0].fullmatch(condition.value):
        yield "value", f"is {condition.value!r}; the rule {condition.rule} needs one {form[1]}"
    if form is None and condition.value:
        yield "value", f"is {condition.value!r}, but the rule {condition.rule} takes none"
    if condition.rule is RetireRule.NEVER and not condition.reason.strip():
        yield "reason", "is needed by the rule never"


def _knob_rule(knob: Knob) -> Iterator[tuple[str, str]]:
    if knob.default not in knob.values:
        yield "default", f"is {knob.default!r}, not one of the values {', '.join(knob.values)}"


def _numbers_rule(numbers: Numbers) -> Iterator[tuple[str, str]]:
    if not numbers.lossless and not numbers.error.strip():
        yield "error", "is needed when lossless is false: the measured error and the command that measured it"


def _distinct_knobs(topic: Topic) -> Iterator[tuple[str, str]]:
    names = [knob.name for knob in topic.knobs]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield "knobs", f"declares {name} more than once"


def _order_rule(order: SeriesOrder) -> Iterator[tuple[str, str]]:
    listed = [entry.id for entry in order.topics]
    for place, entry in enumerate(order.topics):
        key = f"topics #{place + 1}"
        if entry.id in listed[:place]:
            yield key, f"lists {entry.id!r} again"
        for required in entry.requires:
            if required == entry.id:
                yield key, f"{entry.id!r} requires itself"
            elif required not in listed:
                yield key, f"{entry.id!r} requires {required!r}, which the series does not list"
            elif required not in listed[:place]:
                yield key, f"{entry.id!r} requires {required!r}, which must come before it (or they require each other)"
