"""What compiles the kernels: pinned files of the registry, what a person chose, and what was found."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.ids import Sha256
from toolkit.model.pin import Artifact


@dataclass(frozen=True, slots=True)
class PinnedWheel:
    """A wheel of the registry that the toolchain takes files from."""

    project: str
    filename: str
    sha256: Sha256
    size: int
    """Bytes."""

    @property
    def artifact(self) -> Artifact:
        """The file alone, without its project."""
        return Artifact(self.filename, self.sha256, self.size)

    @property
    def version(self) -> str:
        """The version that its file name states."""
        return self.filename.split("-")[1]


@dataclass(frozen=True, slots=True)
class PinnedHeader:
    """One header of torch, below ``torch/include`` in the wheel."""

    path: str
    sha256: Sha256


@dataclass(frozen=True, slots=True)
class ToolchainPins:
    """``patchsets/toolchain.toml``.

    Attributes:
        cuda_major: of nvcc and of the runtime library that the kernels load; it must be that of vLLM's torch.
        stable_abi: oldest torch whose stable ABI the kernels may use, ``2.11``.
        nvcc: the wheels that together hold the compiler.
        torch: the wheel that holds the headers.
        headers: what is read out of it.
    """

    cuda_major: int
    stable_abi: str
    nvcc: tuple[PinnedWheel, ...]
    torch: PinnedWheel
    headers: tuple[PinnedHeader, ...]


@dataclass(frozen=True, slots=True)
class ToolchainOptions:
    """What a person chose.

    Attributes:
        nvcc: path of an nvcc; ``system`` for the first of CUDA_HOME, PATH and /usr/local/cuda; '' for the pinned one.
        cxx: path or name of a g++; '' for the one on the PATH.
        arches: compute capabilities in NVIDIA's notation, ``8.6``.
    """

    nvcc: str = ""
    cxx: str = ""
    arches: tuple[str, ...] = ("8.6",)


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler that was found fit, with what it needs; every path is absolute.

    Attributes:
        nvcc_version: ``13.0.88``.
        cuda: folder with ``bin/nvcc`` and ``include``.
        cudart: folder of ``libcudart.so.<major>``, relative to ``cuda``.
        cxx, cxx_version: the host compiler.
        headers: folder with ``torch/csrc/stable`` and the rest.
        headers_key: changes when a header does.
        origin: where nvcc came from, for people.
    """

    nvcc_version: str
    cuda: str
    cudart: str
    cxx: str
    cxx_version: str
    headers: str
    headers_key: str
    origin: str
