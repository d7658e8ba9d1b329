"""What a built wheel or a patched tree says about itself: the contents of ``vllm/hq/manifest.json``."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.chain import Chain
from toolkit.model.ids import Sha256, TopicId

MANIFEST_PATH = "vllm/hq/manifest.json"
MANIFEST_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class BuiltTopic:
    """A topic as built.

    Attributes:
        files: paths that it changes or adds, sorted.
        ops: names of the torch operators that its CUDA sources define.
        knobs: environment variable -> default.
    """

    id: TopicId
    title: str
    kind: str
    what: str
    lossless: bool
    error: str
    upstream: str
    files: tuple[str, ...]
    ops: tuple[str, ...]
    knobs: dict[str, str]


@dataclass(frozen=True, slots=True)
class BuiltKernels:
    """The compiled library: where it lies, its hash, what it runs on and what made it."""

    path: str
    sha256: Sha256
    size: int
    architectures: tuple[str, ...]
    """Machine code as ``sm_86``, PTX as ``compute_86``."""
    nvcc: str
    stable_abi: str


@dataclass(frozen=True, slots=True)
class BuildManifest:
    """Everything a guard, ``check`` or ``wheel explain`` needs, without the repository.

    Attributes:
        version: of the built distribution, ``0.33.0+hq1.sm86``.
        pin: vLLM's version.
        commit: upstream commit (or its known prefix).
        base: sha256 of the official wheel or the sdist that was patched; for another tree, of its sha256sum listing.
        torch, triton: versions that the pin needs.
        generated: paths that the build rewrites and no topic owns, with their sha256 (``vllm/_version.py``).
        kernels: None when no topic has CUDA sources or the tree was not compiled.
    """

    version: str
    pin: str
    commit: str
    base: Sha256
    revision: int
    torch: str
    triton: str
    topics: tuple[BuiltTopic, ...]
    chain: Chain
    generated: dict[str, Sha256]
    kernels: BuiltKernels | None
    tool: str
    schema: int = MANIFEST_SCHEMA
