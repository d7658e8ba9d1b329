"""The compiled operators: one library for all topics, loaded once a process, missed without harm.

Nothing here raises when the library is absent or does not load: a topic asks for its operator, and where there is none
it takes its other path and says why.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

LIBRARY = Path(__file__).with_name("_hq_C.abi3.so")
NAMESPACE = "hq"

_with_fake: set[str] = set()


@functools.cache
def reason() -> str:
    """Load the library, and return why that failed; empty when it is loaded."""
    if not LIBRARY.is_file():
        return f"{LIBRARY.name} is not in this installation"
    try:
        torch.ops.load_library(str(LIBRARY))
    except (OSError, RuntimeError) as error:
        return f"{LIBRARY.name} does not load: {error}"
    return ""


def loaded() -> bool:
    """Say whether the library is loaded, after trying to load it."""
    return not reason()


def available(name: str) -> bool:
    """Say whether the operator ``hq::<name>`` can be called."""
    return loaded() and hasattr(getattr(torch.ops, NAMESPACE), name)


def why_missing(name: str) -> str:
    """Return why the operator cannot be called, empty when it can."""
    if available(name):
        return ""
    return reason() or f"{LIBRARY.name} has no operator {NAMESPACE}::{name}"


def set_fake(name: str, fake: Callable[..., Any]) -> None:
    """Tell torch.compile what ``hq::<name>`` returns; the first call for a name counts."""
    if name not in _with_fake:
        torch.library.register_fake(f"{NAMESPACE}::{name}")(fake)
        _with_fake.add(name)
