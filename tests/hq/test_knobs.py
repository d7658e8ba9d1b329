"""The switches: what they accept, what they refuse, and what they then say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from vllm.hq import knobs

DEFAULTS = {"VLLM_HQ": True, "VLLM_HQ_QUICK_PATH": True, "VLLM_HQ_SHY": False}


def test_defaults_come_from_the_manifest(build: Callable[..., Any]) -> None:
    build()
    assert knobs.values({"PATH": "/bin", "VLLM_HQX": "?"}) == DEFAULTS


@pytest.mark.parametrize(
    ("text", "on"),
    [
        *((text, True) for text in ("1", "true", "TRUE", "On", " 1 ")),
        *((text, False) for text in ("0", "false", "False", "OFF")),
    ],
)
def test_positions(build: Callable[..., Any], text: str, on: bool) -> None:
    build()
    assert knobs.values({"VLLM_HQ_SHY": text})["VLLM_HQ_SHY"] is on


@pytest.mark.parametrize("text", ["", "2", "yes", "none", "1 0", "tru"])
def test_other_values_are_refused_with_what_is_allowed(build: Callable[..., Any], text: str) -> None:
    build()
    with pytest.raises(ValueError, match="VLLM_HQ_SHY") as caught:
        knobs.values({"VLLM_HQ_SHY": text})
    assert repr(text) in str(caught.value)
    assert "1, true, on" in str(caught.value)
    assert "0, false, off" in str(caught.value)


def test_a_near_miss_is_named(build: Callable[..., Any]) -> None:
    build()
    with pytest.raises(ValueError, match="did you mean VLLM_HQ_QUICK_PATH"):
        knobs.values({"VLLM_HQ_QUICKPATH": "1"})


def test_a_switch_of_a_topic_that_was_left_out_is_refused(build: Callable[..., Any]) -> None:
    build()
    with pytest.raises(ValueError, match="its topic is not in this wheel") as caught:
        knobs.values({"VLLM_HQ_LONG_CONTEXT_TUNING": "0"})
    assert all(name in str(caught.value) for name in DEFAULTS)


def test_all_mistakes_are_named_at_once(build: Callable[..., Any]) -> None:
    build()
    with pytest.raises(ValueError, match="VLLM_HQ_SHI") as caught:
        knobs.values({"VLLM_HQ": "maybe", "VLLM_HQ_SHI": "1", "VLLM_HQ_QUICK_PATH": "3"})
    assert str(caught.value).count("; ") == 2


def test_without_a_manifest_any_switch_is_accepted_but_no_other_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knobs.manifest, "read", lambda: None)
    assert knobs.values({"VLLM_HQ_ANY": "off"}) == {"VLLM_HQ": True, "VLLM_HQ_ANY": False}
    with pytest.raises(ValueError, match="VLLM_HQ_ANY"):
        knobs.values({"VLLM_HQ_ANY": "x"})


@pytest.mark.parametrize(
    ("environment", "topic", "why"),
    [
        ({}, "quick-path", ""),
        ({}, "runtime", ""),
        ({}, "shy", "VLLM_HQ_SHY=0"),
        ({"VLLM_HQ_SHY": "on"}, "shy", ""),
        ({"VLLM_HQ_QUICK_PATH": "off"}, "quick-path", "VLLM_HQ_QUICK_PATH=0"),
        ({"VLLM_HQ": "0"}, "runtime", "VLLM_HQ=0"),
        ({"VLLM_HQ": "0", "VLLM_HQ_SHY": "1"}, "shy", "VLLM_HQ=0"),
    ],
)
def test_a_topic_is_on_unless_a_switch_says_otherwise(
    build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], topic: str, why: str
) -> None:
    build()
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    assert knobs.why_off(topic) == why
    assert knobs.enabled(topic) is (not why)
