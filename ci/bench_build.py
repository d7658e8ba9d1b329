"""Measure what hqtool promises about building and checking: time, memory, and two builds that are the same bytes.

    .venv/bin/python ci/bench_build.py            with the user's cache, which the first build fills
    .venv/bin/python ci/bench_build.py --cold     also with an empty cache, against a plain download (pip)

Each number is from a real run of the installed command. Prints a table and, as the last line, one JSON object; exit
code 1 when a limit is missed. Memory is that of the command and all its children: the sum of their resident sets,
read from /proc every 10 ms, at its highest.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from platformdirs import user_cache_path

HQTOOL = (Path(sys.executable).with_name("hqtool"),)
PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20


@dataclass(frozen=True)
class Measured:
    """One number, and the limit that it must stay under (None: for information)."""

    name: str
    value: float
    unit: str
    limit: float | None = None

    @property
    def met(self) -> bool:
        """Whether the number keeps its limit."""
        return self.limit is None or self.value < self.limit


@dataclass(frozen=True)
class Run:
    """A finished command: wall and processor time in seconds, peak memory in bytes, standard output."""

    seconds: float
    processor: float
    memory: int
    output: str


def resident(root: int) -> int:
    """Return the bytes that a process and all its descendants have resident now."""
    parents: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(folder.name)] = int(fields[1])
        sizes[int(folder.name)] = int(fields[21]) * PAGE
    family = {root}
    grown = True
    while grown:
        more = {process for process, parent in parents.items() if parent in family} - family
        grown = bool(more)
        family |= more
    return sum(sizes.get(process, 0) for process in family)


def processor_time() -> float:
    """Return the seconds of processor time that finished children of this process took, and theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(command: Sequence[str | Path], cache: Path | None = None) -> Run:
    """Run a command to its end; a failure ends the benchmark."""
    environment = dict(os.environ) if cache is None else {**os.environ, "HQTOOL_CACHE": str(cache)}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        begin, used = time.perf_counter(), processor_time()
        process = subprocess.Popen([str(part) for part in command], stdout=output, env=environment)
        peak = 0
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            time.sleep(0.01)
        seconds = time.perf_counter() - begin
        output.seek(0)
        text = output.read()
    if process.returncode != 0:
        raise SystemExit(
            f"{' '.join(str(part) for part in command)} failed with exit code {process.returncode}\n{text}"
        )
    return Run(seconds, processor_time() - used, peak, text)


def typical(command: Sequence[str | Path], times: int) -> float:
    """Return the median wall time of several runs, after one that is not counted; no memory is sampled."""
    seconds = []
    for _ in range(times + 1):
        begin = time.perf_counter()
        subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[1:])


def build(out: Path, options: Sequence[str | Path], cache: Path | None = None) -> tuple[Run, Path]:
    """Build the wheel into that folder; return the run and the wheel."""
    run = measure([*HQTOOL, "-q", "build-wheel", "--json", "--out", out, *options], cache)
    return run, Path(json.loads(run.output)["data"]["path"])


def spent(name: str, run: Run, limit: float) -> list[Measured]:
    """Return a build's numbers; processor time tells a slow build from a busy machine."""
    return [
        Measured(name, run.seconds, "s", limit),
        Measured("  processor time", run.processor, "s"),
        Measured("  memory", run.memory / MIB, "MiB", 700),
    ]


def without_kernels(cache: Path, folder: Path) -> Path:
    """Return a cache with the downloads and compilers of another one, but nothing compiled."""
    folder.mkdir()
    for part in cache.iterdir():
        if part.name not in {"kernels", "locks"}:
            (folder / part.name).symlink_to(part)
    return folder


def warm(folder: Path, cache: Path, options: Sequence[str | Path]) -> tuple[list[Measured], Path]:
    """Measure builds with a filled cache; return the numbers and a wheel."""
    build(folder / "first", options, cache)
    again, wheel = build(folder / "again", options, cache)
    compiled, other = build(folder / "compiled", options, without_kernels(cache, folder / "cache"))
    same = filecmp.cmp(wheel, other, shallow=False)
    return [
        *spent("build, warm cache", again, 20),
        *spent("build, kernels compiled anew", compiled, 20),
        Measured("differences between these two wheels", 0 if same else 1, "", 1),
    ], wheel


def cold(folder: Path, options: Sequence[str | Path], version: str) -> list[Measured]:
    """Measure a plain download of the official wheel by pip, then a build with an empty cache."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--only-binary=:all:"]
    download = measure([*pip, "--dest", folder / "plain", f"vllm=={version}"])
    run, _ = build(folder / "cold", options, folder / "empty")
    return [
        Measured("plain download", download.seconds, "s"),
        *spent("build, empty cache", run, download.seconds + 30),
    ]


def answers(folder: Path, wheel: Path) -> list[Measured]:
    """Measure the commands that must answer at once."""
    tree = folder / "tree"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", str(tree)]
    subprocess.run([*pip, str(wheel)], check=True)
    return [
        Measured("hqtool --help", typical([*HQTOOL, "--help"], 9), "s", 0.3),
        Measured("hqtool check, installed tree", typical([*HQTOOL, "check", tree], 5), "s", 1),
        Measured("hqtool check, wheel", typical([*HQTOOL, "check", wheel], 5), "s"),
        Measured("hqtool wheel explain", typical([*HQTOOL, "wheel", "explain", wheel], 5), "s"),
    ]


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pin", default="0.33.0", help="vLLM release")
    parser.add_argument("--cold", action="store_true", help="also build with an empty cache (downloads twice)")
    parser.add_argument("--cache", type=Path, default=user_cache_path("hqtool"), help="the cache that is warm")
    parser.add_argument("--folder", type=Path, help="where to work; about 3 GB, removed afterwards")
    arguments = parser.parse_args()
    options = ["--pin", arguments.pin]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        measured, wheel = warm(folder, arguments.cache.resolve(), options)
        measured += answers(folder, wheel)
        if arguments.cold:
            measured += cold(folder, options, arguments.pin)
    for item in measured:
        limit = "" if item.limit is None else f"under {item.limit:g}{'' if item.met else '  MISSED'}"
        print(f"{item.name:<38}{item.value:>9.2f} {item.unit:<4}{limit}")
    print(json.dumps({"cores": os.cpu_count(), "pin": arguments.pin, "measured": [asdict(item) for item in measured]}))
    return 0 if all(item.met for item in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
