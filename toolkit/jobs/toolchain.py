"""Makes a toolchain ready: nvcc chosen, fetched if need be and judged; g++ judged; torch's headers in place."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from toolkit.engine.toolchain import (
    TOOLCHAIN_FILE,
    check_gcc,
    check_nvcc,
    headers_key,
    nvcc_key,
    nvcc_root,
    nvcc_version,
    parse_toolchain,
)
from toolkit.io.atomic import atomic_folder
from toolkit.io.cache import Cache
from toolkit.io.index import find_urls
from toolkit.io.nvcc import (
    PACKAGED_CUDA,
    dryrun_output,
    host_compiler,
    packaged_cuda,
    predefined_macros,
    system_nvcc,
    version_output,
)
from toolkit.io.remote_zip import read_members
from toolkit.io.unpack import unpack_wheel
from toolkit.jobs.artifact import obtain
from toolkit.model.errors import CheckError, EnvironmentUnfitError, UsageError
from toolkit.model.ids import sha256
from toolkit.model.progress import Progress
from toolkit.model.toolchain import Toolchain, ToolchainOptions, ToolchainPins

SYSTEM = "system"
"""The value of --nvcc that means the machine's own."""

_TORCH_INCLUDE = "torch/include/"


@dataclass(frozen=True, slots=True)
class NvccChoice:
    """Which nvcc will be used.

    Attributes:
        nvcc: the program; None when the pinned wheels have to be fetched.
        origin: where it comes from, for people.
        fetched_bytes: what has to be downloaded.
    """

    nvcc: Path | None
    origin: str
    fetched_bytes: int = 0


def load_toolchain(folder: Path) -> ToolchainPins:
    """Return the pins of the toolchain.

    Raises:
        UsageError: the folder has no ``toolchain.toml``, or it is invalid.
    """
    try:
        return parse_toolchain((folder / TOOLCHAIN_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(
            f"{folder} has no {TOOLCHAIN_FILE}",
            cause="it pins the compiler and the headers",
            fix="name the folder of the series with --patchsets",
        ) from error


def choose_nvcc(pins: ToolchainPins, options: ToolchainOptions, cache: Cache) -> NvccChoice:
    """Say which nvcc to use, without fetching anything.

    The pinned one is preferred to the machine's, so that everybody's library comes from the same compiler.

    Raises:
        EnvironmentUnfitError: the machine's own was asked for, and there is none.
    """
    if options.nvcc == SYSTEM:
        found = system_nvcc(os.environ)
        if found is None:
            raise EnvironmentUnfitError(
                "this machine has no nvcc",
                cause="there is none in CUDA_HOME, CUDA_PATH, the PATH and /usr/local/cuda",
                fix="leave out --nvcc and HQTOOL_NVCC: hqtool then fetches a fitting nvcc itself",
            )
        return NvccChoice(found, "this machine")
    if options.nvcc:
        return NvccChoice(Path(options.nvcc).absolute(), "named with --nvcc or HQTOOL_NVCC")
    packaged = packaged_cuda({wheel.project: wheel.version for wheel in pins.nvcc})
    if packaged is not None:
        return NvccChoice(packaged / "bin" / "nvcc", "the pinned packages of this Python environment")
    made = cache.made("toolchains", f"nvcc-{nvcc_key(pins)}")
    if made.is_dir():
        return NvccChoice(made / PACKAGED_CUDA / "bin" / "nvcc", "the pinned packages in the cache")
    missing = [wheel for wheel in pins.nvcc if not cache.download(wheel.sha256, wheel.filename).is_file()]
    return NvccChoice(None, "the pinned packages, fetched", sum(wheel.size for wheel in missing))


def prepare_toolchain(pins: ToolchainPins, options: ToolchainOptions, cache: Cache, progress: Progress) -> Toolchain:
    """Return a toolchain that fits, after fetching what is missing.

    Raises:
        EnvironmentUnfitError: no nvcc, no g++, one that does not fit, no network, no room.
        CheckError: a download is not what the pins say.
    """
    cxx = host_compiler(options.cxx)  # first: it is the one thing that cannot be fetched
    nvcc, origin = _nvcc(pins, options, cache, progress)
    version = check_nvcc(str(nvcc), version_output(nvcc), pins.cuda_major)
    cuda = _cuda_root(nvcc)
    cxx_version = check_gcc(str(cxx), predefined_macros(cxx), _host_config(cuda), version)
    cudart = _cudart(cuda, pins.cuda_major)
    headers = _headers(pins, cache, progress)
    return Toolchain(
        nvcc_version=version,
        cuda=str(cuda),
        cudart=cudart,
        cxx=str(cxx),
        cxx_version=cxx_version,
        headers=str(headers),
        headers_key=headers_key(pins),
        origin=origin,
    )


def _nvcc(pins: ToolchainPins, options: ToolchainOptions, cache: Cache, progress: Progress) -> tuple[Path, str]:
    choice = choose_nvcc(pins, options, cache)
    if choice.nvcc is not None:
        return choice.nvcc, choice.origin
    try:
        return _fetch_nvcc(pins, cache, progress), choice.origin
    except EnvironmentUnfitError as error:
        own = system_nvcc(os.environ)
        if own is None or not _is_of(own, pins.cuda_major):
            raise
        progress.say(f"nvcc cannot be fetched ({error.what}); using {own}")
        return own, "this machine, for want of a network"


def _is_of(nvcc: Path, cuda_major: int) -> bool:
    try:
        return nvcc_version(version_output(nvcc)).split(".")[0] == str(cuda_major)
    except EnvironmentUnfitError:
        return False


def _fetch_nvcc(pins: ToolchainPins, cache: Cache, progress: Progress) -> Path:
    key = f"nvcc-{nvcc_key(pins)}"
    target = cache.made("toolchains", key)
    with cache.lock(key):
        if not target.is_dir():
            wheels = [obtain(wheel.artifact, wheel.project, cache, progress) for wheel in pins.nvcc]
            progress.say(f"unpacking nvcc {pins.nvcc[0].version}")
            with atomic_folder(target) as partial:
                for wheel in wheels:
                    unpack_wheel(wheel, partial)
    return target / PACKAGED_CUDA / "bin" / "nvcc"


def _cuda_root(nvcc: Path) -> Path:
    root = nvcc_root(dryrun_output(nvcc))
    folder = Path(root).resolve() if root else nvcc.resolve().parent.parent
    if not (folder / "bin" / "nvcc").is_file():
        raise EnvironmentUnfitError(
            f"the files of {nvcc} are not found",
            cause=f"there is no bin/nvcc in {folder}",
            fix="leave out --nvcc and HQTOOL_NVCC: hqtool then fetches a fitting nvcc itself",
        )
    return folder


def _host_config(cuda: Path) -> str:
    try:
        return (cuda / "include" / "crt" / "host_config.h").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError as error:
        raise EnvironmentUnfitError(
            f"the CUDA toolkit in {cuda} is incomplete",
            cause="include/crt/host_config.h is missing",
            fix="install the toolkit's compiler headers, or leave out --nvcc: hqtool then fetches a whole one",
        ) from error


def _cudart(cuda: Path, major: int) -> str:
    for folder in ("lib", "lib64", "targets/x86_64-linux/lib"):
        if (cuda / folder / f"libcudart.so.{major}").exists():
            return folder
    raise EnvironmentUnfitError(
        f"the CUDA toolkit in {cuda} is incomplete",
        cause=f"libcudart.so.{major} is in none of its library folders",
        fix="install the toolkit's runtime library, or leave out --nvcc: hqtool then fetches a whole one",
    )


def _headers(pins: ToolchainPins, cache: Cache, progress: Progress) -> Path:
    """Return the folder with torch's headers, read out of the pinned wheel if they are not there yet."""
    key = f"headers-{headers_key(pins)}"
    target = cache.made("toolchains", key)
    with cache.lock(key):
        if not target.is_dir():
            expected = {f"{_TORCH_INCLUDE}{header.path}": header for header in pins.headers}
            progress.say(f"reading {len(expected)} headers of torch {pins.torch.version}")
            url = find_urls(pins.torch.project, [pins.torch.filename])[pins.torch.filename]
            members = read_members(url, expected.__contains__, size=pins.torch.size, progress=progress)
            wrong = [path for path, pin in expected.items() if sha256(members.get(path, b"")) != pin.sha256]
            if wrong:
                raise CheckError(
                    f"{wrong[0]} of {pins.torch.filename} is not the pinned file",
                    cause="its sha256 differs: the registry or something on the way serves other bytes",
                    fix="try again, over another network if it stays",
                )
            with atomic_folder(target) as partial:
                for path, header in expected.items():
                    written = partial / header.path
                    written.parent.mkdir(parents=True, exist_ok=True)
                    written.write_bytes(members[path])
    return target
