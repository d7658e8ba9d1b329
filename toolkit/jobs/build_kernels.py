"""Compiles the topics' CUDA sources into one library, again only what changed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from toolkit.engine.compile_log import STATUS, build_error, finished_steps
from toolkit.engine.ninja_file import LIBRARY, NOTHING_EXPORTED, job_count, kernel_files, operators, render
from toolkit.engine.toolchain import code_names
from toolkit.io.atomic import atomic_file
from toolkit.io.cache import Cache
from toolkit.io.nvcc import run_ninja
from toolkit.io.process import free_memory, held, usable_cores
from toolkit.jobs.toolchain import NvccChoice, choose_nvcc, prepare_toolchain
from toolkit.model.build import BuiltKernels
from toolkit.model.ids import TopicId, sha256
from toolkit.model.progress import Progress
from toolkit.model.toolchain import Toolchain, ToolchainOptions, ToolchainPins
from toolkit.model.topic import Series

INSTALLED_PATH = f"vllm/hq/{LIBRARY}"
"""Where the library lies in the wheel."""


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """What a build would do.

    Attributes:
        files: sources and headers, ``src/<topic>/<file>``.
        ops: topic -> operators that it defines.
        nvcc: which nvcc would be used.
        code: what the library would hold, ``sm_86`` and ``compute_86``.
    """

    files: tuple[str, ...]
    ops: dict[TopicId, tuple[str, ...]]
    nvcc: NvccChoice
    code: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KernelBuild:
    """A compiled library.

    Attributes:
        path: the file: in ``out`` if that was given, else in the cache, where a later build replaces it.
        data: its bytes.
        built: what the manifest says about it.
        ops: topic -> operators that it defines.
        steps: compilers and linkers that ran; 0 when everything was up to date.
        origin: where nvcc came from, for people.
    """

    path: Path
    data: bytes
    built: BuiltKernels
    ops: dict[TopicId, tuple[str, ...]]
    steps: int
    origin: str


def plan_kernels(series: Series, *, pins: ToolchainPins, cache: Cache, options: ToolchainOptions) -> KernelPlan | None:
    """Say what `build_kernels` would do, without fetching or writing anything; None when no topic defines an operator.

    Raises:
        EnvironmentUnfitError: the machine's own nvcc was asked for, and there is none.
    """
    ops = operators(series)
    if not ops:
        return None
    nvcc = choose_nvcc(pins, options, cache)
    return KernelPlan(tuple(kernel_files(series)), ops, nvcc, code_names(options.arches))


def build_kernels(
    series: Series,
    *,
    pins: ToolchainPins,
    cache: Cache,
    progress: Progress,
    options: ToolchainOptions,
    out: Path | None = None,
) -> KernelBuild | None:
    """Compile the library; None when no topic defines an operator.

    The build folder in the cache is kept for each toolchain and set of topics, so a second run compiles what changed.
    A run that was killed leaves nothing that the next one would take for finished: ninja records a step when it ends.

    Args:
        series: the topics.
        pins: the toolchain's.
        cache: holds toolchains and build folders.
        progress: is told about fetching and compiling.
        options: what a person chose.
        out: folder that gets a copy of the library.

    Raises:
        CheckError: a source does not compile; the message names its topic and shows the compiler's lines.
        EnvironmentUnfitError: no fitting compiler, no network, no room.
    """
    ops = operators(series)
    if not ops:
        return None
    toolchain = prepare_toolchain(pins, options, cache, progress)
    files = kernel_files(series)
    text = render(files, toolchain, arches=options.arches, stable_abi=pins.stable_abi)
    folder = cache.made("kernels", _key(text, toolchain))
    with held(folder.with_name(f"{folder.name}.lock")) as lock:
        _lay_out(folder, files, text, toolchain)
        steps = _compile(folder, progress, lock)
        data = (folder / LIBRARY).read_bytes()
    path = folder / LIBRARY if out is None else _copy(data, out)
    built = BuiltKernels(
        path=INSTALLED_PATH,
        sha256=sha256(data),
        size=len(data),
        architectures=code_names(options.arches),
        nvcc=toolchain.nvcc_version,
        stable_abi=pins.stable_abi,
    )
    return KernelBuild(path, data, built, ops, steps, toolchain.origin)


def _key(text: str, toolchain: Toolchain) -> str:
    """Return the build folder's name: another compiler, header, flag or set of sources gets another folder."""
    parts = (text, toolchain.nvcc_version, toolchain.cuda, toolchain.cxx_version, toolchain.headers_key)
    return sha256("\n".join(parts).encode())[:16]


def _lay_out(folder: Path, files: dict[str, bytes], text: str, toolchain: Toolchain) -> None:
    """Bring sources, links and ``build.ninja`` up to date; files that are right keep their time, so ninja does too."""
    wanted = {**files, "build.ninja": text.encode(), "exports.map": NOTHING_EXPORTED.encode(), "stub/empty.cpp": b""}
    for stale in folder.glob("src/*/*"):
        if stale.relative_to(folder).as_posix() not in wanted:
            stale.unlink()
    for name, data in wanted.items():
        path = folder / name
        if not path.is_file() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    for name, target in (("cuda", toolchain.cuda), ("include", toolchain.headers)):
        link = folder / name
        if not link.is_symlink() or str(link.readlink()) != target:
            link.unlink(missing_ok=True)
            link.symlink_to(target)


def _compile(folder: Path, progress: Progress, lock: int) -> int:
    """Run ninja; return how many steps it ran."""
    task = progress.task("compiling kernels", None, unit="steps")
    steps = 0

    def follow(line: str) -> None:
        nonlocal steps
        if finished_steps(line):
            steps += 1
            task.advance(1)

    try:
        jobs = job_count(usable_cores(), free_memory())
        done = run_ninja(folder, jobs=jobs, status=STATUS, on_line=follow, inherit=(lock,))
    finally:
        task.finish()
    if done.code != 0:
        raise build_error(done.output, str(folder))
    return steps


def _copy(data: bytes, out: Path) -> Path:
    target = out / LIBRARY
    with atomic_file(target) as partial:
        partial.write_bytes(data)
        partial.chmod(0o755)
    return target
