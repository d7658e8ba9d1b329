"""The switches: every environment variable that vllm/hq reads, in one place, validated.

``VLLM_HQ`` is the master switch: 0 makes this build behave as upstream's. Every topic that can be switched off has a
switch of its own, ``VLLM_HQ_`` and the topic's name in capitals (``VLLM_HQ_QUANTIZED_EMBEDDINGS``). Which switches
exist is what the build manifest lists; a tree without a manifest accepts any name.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping

from vllm.hq import manifest

MASTER = "VLLM_HQ"
PREFIX = "VLLM_HQ_"
_ON = ("1", "true", "on")
_OFF = ("0", "false", "off")


def switch_of(topic: str) -> str:
    """Return the name of that topic's switch."""
    return PREFIX + topic.upper().replace("-", "_")


def values(environment: Mapping[str, str] | None = None) -> dict[str, bool]:
    """Return every switch of this build, and any other that is set, with its value.

    Args:
        environment: variables to read; the process's by default.

    Raises:
        ValueError: a variable has a value that is no switch position, or a name that this build does not know.
            All mistakes are named at once.
    """
    environment = os.environ if environment is None else environment
    found = manifest.read()
    known = {MASTER: "1"} | (found.knobs if found else {})
    given = {name: text for name, text in environment.items() if name == MASTER or name.startswith(PREFIX)}
    mistakes = [_unknown(name, known) for name in sorted(given) if found and name not in known]
    states: dict[str, bool] = {}
    for name, text in sorted((known | given).items()):
        position = text.strip().lower()
        if position in _ON or position in _OFF:
            states[name] = position in _ON
        else:
            mistakes.append(f"{name}={text!r} is neither on ({', '.join(_ON)}) nor off ({', '.join(_OFF)})")
    if mistakes:
        raise ValueError("; ".join(mistakes))
    return states


def enabled(topic: str) -> bool:
    """Say whether that topic is on: its own switch and the master switch both are.

    Raises:
        ValueError: see `values`.
    """
    states = values()
    return states[MASTER] and states.get(switch_of(topic), True)


def why_off(topic: str) -> str:
    """Return the setting that switches the topic off, empty when it is on."""
    states = values()
    for name in (MASTER, switch_of(topic)):
        if not states.get(name, True):
            return f"{name}=0"
    return ""


def _unknown(name: str, known: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    hint = f"did you mean {near[0]}?" if near else "it is misspelled, or its topic is not in this wheel."
    return f"{name} is no switch of this build: {hint} There are: {', '.join(sorted(known))}"
