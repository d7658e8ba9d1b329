"""The start-up guard: one line in the engine's log that says what this build does here, and whether it is intact.

The entry point in ``vllm.general_plugins`` arms the guard in every process that loads plugins; a hook in the engine
core makes it speak. ``VLLM_PLUGINS`` can leave the entry point out: then there is no line, and nothing else changes.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from vllm.hq import knobs, manifest, ops
from vllm.logger import init_logger

if TYPE_CHECKING:
    from vllm.config import VllmConfig

logger = init_logger(__name__)

SITE = Path(__file__).parent.parent.parent
"""The folder that holds the package ``vllm``."""

_armed = False
_spoken = False


def register() -> None:
    """Arm the guard: the entry point. It may run any number of times and touches no device."""
    global _armed  # noqa: PLW0603 - a forked engine inherits it, which no object passed around would
    _armed = True


def announce(vllm_config: VllmConfig) -> None:
    """Log the line, once a process, in the first data-parallel engine; as a warning when something is amiss.

    Raises:
        ValueError: a switch is wrong, whether the guard is armed or not: see `knobs.values`.
    """
    global _spoken  # noqa: PLW0603
    knobs.values()
    if not _armed or _spoken or vllm_config.parallel_config.data_parallel_index:
        return
    _spoken = True
    found = manifest.read()
    if found is None:
        logger.warning("hq: this tree has no %s: hqtool did not build it, so nothing was checked", manifest.PATH.name)
        return
    problems = [*check_versions(found), *check_files(found, SITE), *check_device(found)]
    line = f"hq {found.version}: {describe(found)}"
    if problems:
        logger.warning("%s; amiss: %s", line, "; ".join(problems))
    else:
        logger.info("%s", line)


def describe(found: manifest.Manifest) -> str:
    """Return which topics are on, which are off, and why."""
    on, off = [], []
    for topic in found.topics:
        setting = knobs.why_off(topic.id)
        missing = next(filter(None, map(ops.why_missing, topic.operators)), "") if not setting else ""
        if setting:
            off.append(f"{topic.id} ({setting})")
        else:
            on.append(f"{topic.id} (without its operators: {missing})" if missing else topic.id)
    return f"topics on: {', '.join(on) or 'none'}; off: {', '.join(off) or 'none'}"


def check_versions(found: manifest.Manifest) -> Iterable[str]:
    """Yield how torch and Triton differ from what the pin needs; Triton may be of another patch release."""
    if (here := torch.__version__.partition("+")[0]) != found.torch:
        yield f"torch is {here}, this build needs {found.torch}"
    try:
        triton = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        yield f"Triton is not installed, this build needs {found.triton}"
    else:
        if triton.split(".")[:2] != found.triton.split(".")[:2]:
            yield f"Triton is {triton}, this build needs {found.triton}"


def check_files(found: manifest.Manifest, site: Path) -> Iterable[str]:
    """Yield the files of the topics that are not as they were built.

    Args:
        found: what was built.
        site: the folder that the paths start from.
    """
    for path, blob in sorted(found.blobs.items()):
        file = site / path
        if blob is None:
            if file.exists():
                yield f"{path} is back"
        elif not file.is_file():
            yield f"{path} is missing"
        elif _blob_id(file.read_bytes()) != blob:
            yield f"{path} was edited"
    if found.library and ops.LIBRARY.is_file():
        digest = hashlib.sha256(ops.LIBRARY.read_bytes()).hexdigest()
        if digest != found.library:
            yield f"{ops.LIBRARY.name} is another one than was built"


def check_device(found: manifest.Manifest) -> Iterable[str]:
    """Yield why the compiled library cannot run on the card, if it cannot; a machine without one is fine."""
    from vllm.platforms import current_platform

    capability = current_platform.get_device_capability() if found.architectures else None
    if capability and not runs_on(found.architectures, capability.major, capability.minor):
        built = ", ".join(found.architectures)
        yield f"the card is sm_{capability.major}{capability.minor}, the operators are built for {built}"


def runs_on(architectures: Iterable[str], major: int, minor: int) -> bool:
    """Say whether code for these architectures runs on a card of that compute capability.

    Machine code runs on its own major version from its minor version on, PTX on every later card (CUDA C++
    Programming Guide, "Application Compatibility").
    """
    for name in architectures:
        parsed = re.fullmatch(r"(sm|compute)_(\d+)(\d)", name)
        if parsed is None:
            continue
        kind, built = parsed[1], (int(parsed[2]), int(parsed[3]))
        if built <= (major, minor) and (kind == "compute" or built[0] == major):
            return True
    return False


def _blob_id(data: bytes) -> str:
    """Return git's id of a file (git-hash-object(1)); identity against accident, not attack."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
