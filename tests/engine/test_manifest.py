"""Manifests: what is right is read as written, and every mistake is reported at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.engine.manifest import parse_series, parse_topic
from toolkit.model.errors import UsageError
from toolkit.model.topic import Kind, Knob, RetireCondition, RetireRule, SeriesEntry, UpstreamState

TOPIC = """\
id = "wide-verify"
title = "Wide verification"
kind = "speed"
what = "Verifies more."
why = "Ten is too few."
probe = "tests/probes/test_wide_verify.py"

[upstream]
state = "denied"
reason = "too special"
references = ["vllm-project/vllm#1"]

[[retires-when]]
rule = "has-parameter"
value = "vllm.a.Call:width"

[[retires-when]]
rule = "never"
reason = "only for us"

[[knobs]]
name = "VLLM_HQ_WIDE"
default = "1"
values = ["0", "1"]
what = "0 verifies as upstream does."

[numbers]
lossless = true
"""


def mistakes(text: str, folder: str = "wide-verify") -> list[str]:
    """Return what is wrong with a manifest, without the file's name."""
    with pytest.raises(UsageError) as caught:
        parse_topic(text, folder=folder)
    prefix = f"{folder}/topic.toml: "
    assert all(detail.startswith(prefix) for detail in caught.value.details)
    return [detail.removeprefix(prefix) for detail in caught.value.details]


def test_every_key_is_read() -> None:
    topic = parse_topic(TOPIC, folder="wide-verify")
    assert (topic.id, topic.title, topic.kind) == ("wide-verify", "Wide verification", Kind.SPEED)
    assert (topic.what, topic.why) == ("Verifies more.", "Ten is too few.")
    assert topic.probe == "tests/probes/test_wide_verify.py"
    assert topic.upstream.state is UpstreamState.DENIED
    assert topic.upstream.references == ("vllm-project/vllm#1",)
    assert topic.retires_when == (
        RetireCondition(RetireRule.HAS_PARAMETER, "vllm.a.Call:width"),
        RetireCondition(RetireRule.NEVER, reason="only for us"),
    )
    assert topic.knobs == (Knob("VLLM_HQ_WIDE", "1", ("0", "1"), "0 verifies as upstream does."),)
    assert topic.numbers.lossless is True


@pytest.mark.parametrize(
    ("old", "new", "mistake"),
    [
        ('kind = "speed"', 'kind = "fast"', "kind: is 'fast', not one of runtime, memory, speed, fix, backport"),
        ('kind = "speed"', "kind = 3", "kind: is 3, not one of runtime, memory, speed, fix, backport"),
        ('kind = "speed"', 'kind = ["speed"]', "kind: is ['speed'], not one of runtime, memory, speed, fix, backport"),
        ('title = "Wide verification"', "title = 7", "title: is 7, not a string"),
        ('title = "Wide verification"', 'title = " "', "title: is empty"),
        ('title = "Wide verification"\n', "", "title: is missing"),
        ("lossless = true", "lossless = 1", "numbers.lossless: is 1, not true or false"),
        (
            "lossless = true",
            "lossless = false",
            "numbers.error: is needed when lossless is false: the measured error and the command that measured it",
        ),
        ("[numbers]\nlossless = true\n", "", "numbers: is missing"),
        ("[numbers]\nlossless = true\n", "[[numbers]]\n", "numbers: is [{}], not a table"),
        ('reason = "too special"\n', "", "upstream.reason: is needed when state is denied"),
        ('state = "denied"', 'state = "inappropriate"\nwhy = 1', "upstream.why: is an unknown key; the keys here are "),
        ('references = ["vllm-project/vllm#1"]', 'references = "abc"', "upstream.references: is 'abc', not a list"),
        ('references = ["vllm-project/vllm#1"]', "references = [1]", "upstream.references #1: is 1, not a string"),
        ('reason = "only for us"', "", "retires-when #2.reason: is needed by the rule never"),
        (
            'rule = "never"',
            'rule = "never"\nvalue = "x"',
            "retires-when #2.value: is 'x', but the rule never takes none",
        ),
        (":width", "", "retires-when #1.value: is 'vllm.a.Call'; the rule has-parameter needs one "),
        ('value = "vllm.a.Call:width"\n', "", "retires-when #1.value: is ''; the rule has-parameter needs one "),
        (
            'rule = "has-parameter"',
            'rule = "symbol-exists"',
            "retires-when #1.value: is 'vllm.a.Call:width'; the rule ",
        ),
        ('rule = "has-parameter"', 'rule = "upstream-contains"', "retires-when #1.value: is 'vllm.a.Call:width'; "),
        ('rule = "has-parameter"', 'rule = "probe-passes"', "retires-when #1.value: is 'vllm.a.Call:width', but "),
        ('default = "1"', 'default = "2"', "knobs #1.default: is '2', not one of the values 0, 1"),
        ('values = ["0", "1"]', "values = []", "knobs #1.values: has no element; at least one is needed"),
        ("VLLM_HQ_WIDE", "VLLM_WIDE", "knobs #1.name: is 'VLLM_WIDE', not VLLM_HQ or VLLM_HQ_... in capitals"),
        ("VLLM_HQ_WIDE", "VLLM_HQ_wide", "knobs #1.name: is 'VLLM_HQ_wide', not VLLM_HQ or VLLM_HQ_... in capitals"),
        ("verify.py", "verify.sh", "probe: is 'tests/probes/test_wide_verify.sh', not a path from "),
        ("tests/probes", "../probes", "probe: is '../probes/test_wide_verify.py', not a path from "),
        ('id = "wide-verify"', 'id = "narrow"', "id: is 'narrow', but the folder says 'wide-verify'"),
    ],
)
def test_each_mistake_is_named(old: str, new: str, mistake: str) -> None:
    assert old in TOPIC
    found = mistakes(TOPIC.replace(old, new))
    assert len(found) == 1
    assert found[0].startswith(mistake)


def test_all_mistakes_are_reported_at_once() -> None:
    text = (
        TOPIC.replace('kind = "speed"', 'kind = "fast"')
        .replace('reason = "too special"\n', "")
        .replace('default = "1"', "default = 1")
        .replace("title =", "titel =")
        .replace("lossless = true", "lossless = false")
    )
    assert [line.split(":")[0] for line in mistakes(text, "another")] == [
        "id",
        "title",
        "kind",
        "upstream.reason",
        "numbers.error",
        "knobs #1.default",
        "titel",
    ]


def test_unknown_keys_list_the_known_ones_as_they_are_written() -> None:
    assert mistakes(TOPIC.replace("retires-when", "retires_when"))[1] == (
        "retires_when: is an unknown key; the keys here are "
        "id, title, kind, what, why, upstream, numbers, probe, retires-when, knobs"
    )


def test_a_topic_declares_a_knob_once() -> None:
    knob = TOPIC[TOPIC.index("[[knobs]]") : TOPIC.index("[numbers]")]
    assert mistakes(TOPIC.replace(knob, knob + knob)) == ["knobs: declares VLLM_HQ_WIDE more than once"]


def test_text_that_is_not_toml_names_the_place() -> None:
    assert mistakes("id = \n") == ["not TOML: Invalid value (at line 1, column 6)"]


@pytest.mark.parametrize("state", list(UpstreamState))
def test_only_a_refusal_needs_a_reason(state: UpstreamState) -> None:
    text = TOPIC.replace('state = "denied"\nreason = "too special"\n', f'state = "{state}"\n')
    if state in (UpstreamState.DENIED, UpstreamState.INAPPROPRIATE):
        assert mistakes(text) == [f"upstream.reason: is needed when state is {state}"]
    else:
        assert parse_topic(text, folder="wide-verify").upstream.state is state


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("upstream-contains", "4ba787ec9"),
        ("upstream-contains", "#12345"),
        ("upstream-contains", "12345"),
        ("symbol-exists", "vllm.a.B"),
        ("has-parameter", "vllm.a.B.__init__:quant_config"),
        ("reverse-applies", ""),
        ("probe-passes", ""),
    ],
)
def test_values_of_rules(rule: str, value: str) -> None:
    given_value = f'value = "{value}"' if value else ""
    text = TOPIC.replace('rule = "has-parameter"\nvalue = "vllm.a.Call:width"', f'rule = "{rule}"\n{given_value}')
    assert parse_topic(text, folder="wide-verify").retires_when[0] == RetireCondition(RetireRule(rule), value)


def entry(name: str, *requires: str) -> str:
    """Return one topic of series.toml."""
    return f'[[topics]]\nid = "{name}"\nrequires = {list(requires)!r}\n'


def test_series_keeps_the_order() -> None:
    order = parse_series("revision = 3\n" + entry("b") + 'pins = ["0.33.0"]\n' + entry("a", "b"))
    assert order.revision == 3
    assert order.topics == (SeriesEntry("b", (), ("0.33.0",)), SeriesEntry("a", ("b",)))


@pytest.mark.parametrize(
    ("entries", "mistake"),
    [
        ([entry("a"), entry("a")], "topics #2: lists 'a' again"),
        ([entry("A_b")], "topics #1.id: is 'A_b', not lower-case letters, digits and single hyphens"),
        ([entry("a", "a")], "topics #1: 'a' requires itself"),
        ([entry("a", "c")], "topics #1: 'a' requires 'c', which the series does not list"),
        ([entry("a", "b"), entry("b")], "topics #1: 'a' requires 'b', which must come before it"),
        ([entry("a", "b"), entry("b", "a")], "topics #1: 'a' requires 'b', which must come before it"),
    ],
)
def test_series_out_of_order(entries: list[str], mistake: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_series("revision = 1\n" + "".join(entries))
    assert len(caught.value.details) == 1
    assert caught.value.details[0].startswith(f"series.toml: {mistake}")


def test_revisions_count_from_one() -> None:
    with pytest.raises(UsageError, match="revisions count from 1"):
        parse_series("revision = 0\n" + entry("a"))


@given(st.permutations(["a", "b", "c", "d"]), st.sets(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd"))))
def test_a_series_is_accepted_exactly_when_requirements_come_first(
    names: list[str], needs: set[tuple[str, str]]
) -> None:
    text = "revision = 1\n" + "".join(entry(n, *sorted(b for a, b in needs if a == n)) for n in names)
    right = all(names.index(needed) < names.index(name) for name, needed in needs)
    try:
        parse_series(text)
    except UsageError:
        assert not right
    else:
        assert right
