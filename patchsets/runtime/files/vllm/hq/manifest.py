"""The build manifest: which topics, operators and files this build consists of.

hqtool writes ``manifest.json`` beside this file. A tree without one is a patched checkout that hqtool did not build:
everything works, but nothing says which topics or switches exist.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("manifest.json")
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic of the build.

    Attributes:
        knobs: environment variable -> default.
        operators: names of its compiled operators, without the namespace.
    """

    id: str
    knobs: Mapping[str, str]
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the runtime needs of ``manifest.json``.

    Attributes:
        raw: the file's bytes.
        version: of the built distribution, ``0.33.0+hq1.sm86``.
        torch, triton: the versions that the pin needs.
        blobs: path from the site folder -> git's blob id after the last topic, None for a file that a topic removed.
        architectures: of the compiled library, machine code as ``sm_86`` and PTX as ``compute_86``; empty without one.
        library: sha256 of the compiled library, empty without one.
    """

    raw: bytes
    version: str
    torch: str
    triton: str
    topics: tuple[Topic, ...]
    blobs: Mapping[str, str | None]
    architectures: tuple[str, ...]
    library: str

    @property
    def knobs(self) -> dict[str, str]:
        """Every switch of the build with its default."""
        return {name: default for topic in self.topics for name, default in topic.knobs.items()}


@functools.cache
def read(path: Path = PATH) -> Manifest | None:
    """Return the manifest, None where there is none.

    Raises:
        ValueError: the file is damaged or of another schema; reinstalling the wheel mends it.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        value = json.loads(raw)
        if value["schema"] != SCHEMA:
            raise ValueError(f"its schema is {value['schema']!r}, not {SCHEMA}")
        return _parse(raw, value)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path} is damaged ({error}); install the wheel again") from error


def _parse(raw: bytes, value: dict[str, Any]) -> Manifest:
    kernels = value["kernels"] or {"architectures": [], "sha256": ""}
    return Manifest(
        raw=raw,
        version=value["version"],
        torch=value["torch"],
        triton=value["triton"],
        topics=tuple(
            Topic(item["id"], dict(item["knobs"]), tuple(name.rpartition("::")[2] for name in item["ops"]))
            for item in value["topics"]
        ),
        blobs={path: ids[-1] for path, ids in value["chain"]["files"].items()},
        architectures=tuple(kernels["architectures"]),
        library=kernels["sha256"],
    )
