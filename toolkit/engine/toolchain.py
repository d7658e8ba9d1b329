"""What compilers say about themselves, judged; and ``toolchain.toml``, read."""

from __future__ import annotations

import re

from toolkit.engine.strict_toml import add_class, read_toml, strict_converter
from toolkit.model.errors import EnvironmentUnfitError, UsageError
from toolkit.model.ids import sha256
from toolkit.model.toolchain import PinnedHeader, PinnedWheel, ToolchainPins

TOOLCHAIN_FILE = "toolchain.toml"

_NVCC_RELEASE = re.compile(r"^Cuda compilation tools, release [\d.]+, V(\d+\.\d+\.\d+)", re.MULTILINE)
_NVCC_TOP = re.compile(r"^#\$ TOP=(.+)$", re.MULTILINE)
_NEWEST_GCC = re.compile(r"__GNUC__\s*>\s*(\d+)")
_ABI = re.compile(r"(\d{1,2})\.(\d{1,2})")
_ARCH = re.compile(r"(\d{1,2})\.(\d)")


def parse_toolchain(text: str) -> ToolchainPins:
    """Return the pins of the toolchain.

    Raises:
        UsageError: the text is no such document; the details list every mistake.
    """
    converter = strict_converter()
    hexadecimal = {"sha256": lambda value: "" if re.fullmatch(r"[0-9a-f]{64}", value) else "is no sha256"}
    add_class(converter, PinnedWheel, hexadecimal)
    add_class(converter, PinnedHeader, hexadecimal | {"path": _path_problem})
    add_class(
        converter,
        ToolchainPins,
        {"stable_abi": lambda value: "" if _ABI.fullmatch(value) else "is no version such as 2.11"},
    )
    pins, problems = read_toml(converter, ToolchainPins, text)
    if pins is None:
        raise UsageError(
            f"{TOOLCHAIN_FILE} is invalid",
            cause="one mistake" if len(problems) == 1 else f"{len(problems)} mistakes",
            details=problems,
            fix=f"correct these in {TOOLCHAIN_FILE}",
        )
    return pins


def nvcc_version(output: str) -> str:
    """Return the version in what ``nvcc --version`` printed, ``13.0.88``; '' when it is not nvcc's output."""
    found = _NVCC_RELEASE.search(output)
    return found.group(1) if found else ""


def nvcc_root(output: str) -> str:
    """Return the folder of the toolkit in what ``nvcc --dryrun`` printed; '' when it names none.

    ``nvcc`` may be a link or a script that lies elsewhere; it says itself where its own files are.
    """
    found = _NVCC_TOP.search(output)
    return found.group(1).strip() if found else ""


def check_nvcc(path: str, output: str, cuda_major: int) -> str:
    """Return the version of an nvcc.

    Args:
        path: of the program, for messages.
        output: of ``nvcc --version``.
        cuda_major: the major version that is needed.

    Raises:
        EnvironmentUnfitError: it is no nvcc, or of another major version.
    """
    version = nvcc_version(output)
    use_pinned = "leave out --nvcc and HQTOOL_NVCC: hqtool then fetches a fitting nvcc itself"
    if not version:
        raise EnvironmentUnfitError(f"{path} is not nvcc", cause="it does not state a CUDA release", fix=use_pinned)
    if int(version.split(".")[0]) != cuda_major:
        raise EnvironmentUnfitError(
            f"{path} is nvcc {version}, and CUDA {cuda_major} is needed",
            cause=f"the kernels load libcudart.so.{cuda_major}, the one that vLLM's torch brings",
            fix=f"name an nvcc of CUDA {cuda_major}, or {use_pinned}",
        )
    return version


def check_gcc(path: str, macros: str, host_config: str, nvcc: str) -> str:
    """Return the version of a host compiler that nvcc accepts.

    Args:
        path: of the program, for messages.
        macros: the predefined macros, from ``g++ -E -dM``.
        host_config: nvcc's own ``crt/host_config.h``, which states the newest GCC it supports.
        nvcc: its version, for messages.

    Raises:
        EnvironmentUnfitError: it is no GCC, or too new.
    """
    defined = dict(re.findall(r"^#define (\w+) (.+)$", macros, re.MULTILINE))
    if "__clang__" in defined or "__GNUC__" not in defined:
        raise EnvironmentUnfitError(
            f"{path} is not GCC's g++",
            cause="the kernels are built with g++ only",
            fix="apt-get install g++, or name one with --cxx or HQTOOL_CXX",
        )
    version = f"{defined['__GNUC__']}.{defined.get('__GNUC_MINOR__', '0')}.{defined.get('__GNUC_PATCHLEVEL__', '0')}"
    limit = _NEWEST_GCC.search(host_config)
    if limit and int(defined["__GNUC__"]) > int(limit.group(1)):
        newest = limit.group(1)
        raise EnvironmentUnfitError(
            f"{path} is GCC {version}, too new for nvcc {nvcc}",
            cause=f"this nvcc compiles with GCC up to {newest}",
            fix=f"apt-get install g++-{newest}, then pass --cxx g++-{newest} or set HQTOOL_CXX",
        )
    return version


def headers_key(pins: ToolchainPins) -> str:
    """Return a name for the pinned headers: 16 hexadecimal digits that change when any of them does."""
    return sha256("".join(f"{header.sha256}  {header.path}\n" for header in pins.headers).encode())[:16]


def nvcc_key(pins: ToolchainPins) -> str:
    """Return a name for the pinned compiler, as `headers_key`."""
    return sha256("".join(f"{wheel.sha256}\n" for wheel in pins.nvcc).encode())[:16]


def parse_arches(text: str) -> tuple[str, ...]:
    """Return the compute capabilities of ``8.6,9.0``, ascending.

    Raises:
        UsageError: one of them is not a number like 8.6.
    """
    names = [name.strip() for name in text.split(",")]
    wrong = [name for name in names if not _ARCH.fullmatch(name)]
    if wrong:
        raise UsageError(
            f"{wrong[0]!r} is no GPU architecture",
            cause="architectures are compute capabilities, separated by commas",
            fix="write --arch 8.6 or --arch 8.6,9.0",
        )
    return tuple(sorted(set(names), key=lambda name: tuple(int(part) for part in name.split("."))))


def code_names(arches: tuple[str, ...]) -> tuple[str, ...]:
    """Return what the library will hold: machine code for each architecture, and PTX of the newest for later ones."""
    numbers = [arch.replace(".", "") for arch in arches]
    return (*(f"sm_{number}" for number in numbers), f"compute_{numbers[-1]}")


def abi_macro(stable_abi: str) -> str:
    """Return the value of TORCH_TARGET_VERSION for a torch: its major and minor number are the two highest bytes."""
    major, minor = (int(part) for part in stable_abi.split("."))
    return f"0x{major:02X}{minor:02X}000000000000ULL"


def _path_problem(path: str) -> str:
    parts = path.split("/")
    return "is no path below torch/include" if parts[0] != "torch" or "" in parts or ".." in parts else ""
