"""The series' compiled library and a Python with torch, for the tests of the kernels."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ci.environments import environment_python
from toolkit.io.cache import Cache
from toolkit.jobs.build_kernels import KernelBuild, build_kernels
from toolkit.jobs.series import load_pins, load_series
from toolkit.jobs.toolchain import load_toolchain, prepare_toolchain
from toolkit.model.progress import Silent
from toolkit.model.toolchain import ToolchainOptions

PATCHSETS = Path(__file__).parent.parent.parent / "patchsets"


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> KernelBuild:
    """The library of the whole series, by the pinned toolchain in the user's cache."""
    built = build_kernels(
        load_series(PATCHSETS, load_pins(PATCHSETS).default),
        pins=load_toolchain(PATCHSETS),
        cache=Cache.default(),
        progress=Silent(),
        options=ToolchainOptions(),
        out=tmp_path_factory.mktemp("library"),
    )
    assert built is not None
    return built


@pytest.fixture(scope="session")
def cudart() -> Path:
    """The CUDA runtime of the pinned packages; it loads on machines without a GPU."""
    toolchain = prepare_toolchain(load_toolchain(PATCHSETS), ToolchainOptions(), Cache.default(), Silent())
    return Path(toolchain.cuda, toolchain.cudart, "libcudart.so.13")


RunInTorch = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def run_in_torch(build: KernelBuild, cudart: Path) -> RunInTorch:
    """Runs the torch environment's python with arguments; the environment names the library and the CUDA runtime."""
    python = environment_python("torch")
    variables = {**os.environ, "HQ_LIBRARY": str(build.path), "HQ_CUDART": str(cudart)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([python, *arguments], capture_output=True, text=True, check=False, env=variables)

    return run
