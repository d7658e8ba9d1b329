"""Finds nvcc and the host compiler, asks them about themselves, and runs ninja."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import ninja

from toolkit.io.process import Done, run
from toolkit.model.errors import EnvironmentUnfitError

PACKAGED_CUDA = "nvidia/cu13"
"""Where NVIDIA's wheels of CUDA 13 unpack, below site-packages."""

_MISLEADING = (
    "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH",
    "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "CUDA_HOME", "CUDA_PATH", "NINJAFLAGS",
)  # fmt: skip
"""Variables that change what compilers do; a build must not depend on who runs it."""


def packaged_cuda(versions: Mapping[str, str]) -> Path | None:
    """Return the toolkit of NVIDIA's wheels in this Python environment, if it has all of them at these versions.

    Args:
        versions: project -> version.
    """
    folder = None
    for project, version in versions.items():
        try:
            found = importlib.metadata.distribution(project)
        except importlib.metadata.PackageNotFoundError:
            return None
        if found.version != version:
            return None
        folder = Path(str(found.locate_file(PACKAGED_CUDA)))
    return folder if folder is not None and os.access(folder / "bin" / "nvcc", os.X_OK) else None


def system_nvcc(environment: Mapping[str, str]) -> Path | None:
    """Return the first nvcc of CUDA_HOME, CUDA_PATH, PATH and /usr/local/cuda."""
    named = [Path(environment[name], "bin", "nvcc") for name in ("CUDA_HOME", "CUDA_PATH") if environment.get(name)]
    on_path = shutil.which("nvcc", path=environment.get("PATH"))
    candidates = [*named, *([Path(on_path)] if on_path else []), Path("/usr/local/cuda/bin/nvcc")]
    return next((path for path in candidates if os.access(path, os.X_OK)), None)


def host_compiler(name: str) -> Path:
    """Return the path of a g++.

    Args:
        name: a path or a name on the PATH; '' for ``g++``.

    Raises:
        EnvironmentUnfitError: there is none.
    """
    found = shutil.which(name or "g++")
    if found is None:
        raise EnvironmentUnfitError(
            f"{name} cannot be run" if name else "there is no g++",
            cause="nvcc compiles the host's half of every kernel with g++",
            fix="check --cxx and HQTOOL_CXX" if name else "apt-get install g++",
        )
    return Path(found).absolute()


def version_output(nvcc: Path) -> str:
    """Return what ``nvcc --version`` prints.

    Raises:
        EnvironmentUnfitError: it cannot be run, or fails.
    """
    return _asked(nvcc, "--version")


def dryrun_output(nvcc: Path) -> str:
    """Return what ``nvcc --dryrun`` prints: its settings, among them where its files lie.

    Raises:
        EnvironmentUnfitError: it cannot be run, or fails.
    """
    return _asked(nvcc, "--dryrun", "-E", "-x", "cu", os.devnull)


def predefined_macros(cxx: Path) -> str:
    """Return the macros that a compiler defines by itself.

    Raises:
        EnvironmentUnfitError: it cannot be run, or fails.
    """
    return _asked(cxx, "-E", "-dM", "-x", "c++", os.devnull)


def run_ninja(folder: Path, *, jobs: int, status: str, on_line: Callable[[str], None], inherit: Sequence[int]) -> Done:
    """Build the default target of a folder's ``build.ninja``; failed steps do not stop independent ones.

    Args:
        folder: where ninja runs.
        jobs: processes at once.
        status: the form of ninja's status lines.
        on_line: is told every line as it is printed.
        inherit: file descriptors that ninja keeps open.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _MISLEADING}
    environment |= {"NINJA_STATUS": status, "LC_ALL": "C"}
    command = [str(Path(ninja.BIN_DIR, "ninja")), "-k", "0", "-j", str(jobs)]
    return run(command, folder=folder, environment=environment, on_line=on_line, inherit=inherit)


def _asked(program: Path, *arguments: str) -> str:
    done = run([program, *arguments])
    if done.code != 0:
        raise EnvironmentUnfitError(
            f"{program} does not work",
            cause=f"{' '.join(arguments)} ended with code {done.code}",
            details=done.output.splitlines()[-5:],
            fix="reinstall it, or name another with --nvcc (for g++: --cxx)",
        )
    return done.output
