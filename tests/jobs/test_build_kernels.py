"""Building kernels with the real, pinned compiler: what is compiled again, what a failure says, what a kill leaves.

The series here are small and do without torch, so that a build takes a second or two.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kernel_series import make_series
from toolkit.io.cache import Cache
from toolkit.jobs.build_kernels import KernelBuild, build_kernels, plan_kernels
from toolkit.jobs.toolchain import SYSTEM, choose_nvcc, load_toolchain, prepare_toolchain
from toolkit.model.errors import CheckError, EnvironmentUnfitError, UsageError
from toolkit.model.ids import sha256
from toolkit.model.progress import Silent
from toolkit.model.toolchain import ToolchainOptions
from toolkit.model.topic import Series

PATCHSETS = Path(__file__).parents[2] / "patchsets"
PINS = load_toolchain(PATCHSETS)

KERNEL = """
#include <runtime/shared.h>
namespace rows { __global__ void twice(float* x) { x[threadIdx.x] *= FACTOR; } }
void start(float* x) { rows::twice<<<1, 32>>>(x); }
"""
REGISTRATION = """
struct Library { void def(const char*); };  // nobody loads these libraries, so it may be missing
void fill(Library& m) { m.def("twice(Tensor x) -> Tensor"); }
"""
SOURCES = {
    "runtime": {"shared.h": "#pragma once\n#define FACTOR 2.0f\n"},
    "rows": {"rows.cu": KERNEL, "ops.cpp": REGISTRATION},
    "other": {"other.cpp": REGISTRATION.replace("fill", "fill_other").replace("twice", "thrice")},
}


def with_file(topic: str, name: str, text: str) -> Series:
    """Return the series with one file of another content."""
    return make_series({**SOURCES, topic: {**SOURCES[topic], name: text}})


@pytest.fixture(scope="session")
def toolchains() -> Path:
    """The folder of toolchains in the user's cache, filled."""
    prepare_toolchain(PINS, ToolchainOptions(), Cache.default(), Silent())
    return Cache.default().root / "toolchains"


@pytest.fixture
def cache(tmp_path: Path, toolchains: Path) -> Cache:
    """An empty cache that has the toolchains; its path has a space, as a user's may."""
    root = tmp_path / "the cache"
    root.mkdir()
    (root / "toolchains").symlink_to(toolchains)
    return Cache(root)


def build(series: Series, cache: Cache, out: Path | None = None) -> KernelBuild:
    made = build_kernels(series, pins=PINS, cache=cache, progress=Silent(), options=ToolchainOptions(), out=out)
    assert made is not None
    assert sha256(made.data) == made.built.sha256 and made.path.read_bytes() == made.data
    return made


@pytest.mark.kernel
def test_only_what_changed_is_compiled_again(cache: Cache) -> None:
    first = build(make_series(SOURCES), cache)
    assert first.steps == 5  # three sources, the stand-in for libtorch, the link
    again = build(make_series(SOURCES), cache)
    assert (again.steps, again.data) == (0, first.data)

    changed = build(with_file("rows", "ops.cpp", REGISTRATION.replace("twice", "double")), cache)
    assert changed.steps == 2  # one source and the link
    assert changed.ops == {"rows": ("double",), "other": ("thrice",)}

    header = build(with_file("runtime", "shared.h", "#pragma once\n#define FACTOR 3.0f\n"), cache)
    assert header.steps == 3  # the kernel that includes it, ops.cpp as it was before, the link
    assert header.data != first.data


@pytest.mark.kernel
def test_touched_files_change_nothing(cache: Cache) -> None:
    first = build(make_series(SOURCES), cache)
    for path in first.path.parent.glob("src/*/*"):
        path.touch()
    assert build(make_series(SOURCES), cache).data == first.data


@pytest.mark.kernel
def test_builds_in_different_folders_are_byte_identical(cache: Cache, tmp_path: Path, toolchains: Path) -> None:
    other = Cache(tmp_path / "elsewhere" / "deeper")
    other.root.mkdir(parents=True)
    (other.root / "toolchains").symlink_to(toolchains)
    assert build(make_series(SOURCES), cache).data == build(make_series(SOURCES), other).data


@pytest.mark.kernel
def test_a_topic_less_is_another_library_without_its_operators(cache: Cache) -> None:
    whole = build(make_series(SOURCES), cache)
    less = build(make_series({name: SOURCES[name] for name in ("runtime", "rows")}), cache)
    assert less.ops == {"rows": ("twice",)}
    assert less.path != whole.path
    assert b"thrice" in whole.data and b"thrice" not in less.data


@pytest.mark.kernel
def test_a_compile_error_names_the_topic_and_shows_the_compiler_s_lines(cache: Cache, tmp_path: Path) -> None:
    broken = with_file("rows", "rows.cu", KERNEL.replace("*= FACTOR", "*= NOWHERE"))
    out = tmp_path / "out"
    with pytest.raises(CheckError) as caught:
        build(broken, cache, out)
    assert caught.value.what == "topic rows: rows.cu does not compile"
    assert any('src/rows/rows.cu(3): error: identifier "NOWHERE" is undefined' in line for line in caught.value.details)
    assert not out.exists()
    assert build(make_series(SOURCES), cache, out).path == out / "_hq_C.abi3.so"


@pytest.mark.kernel
def test_an_error_in_a_shared_header_is_its_owner_s(cache: Cache) -> None:
    with pytest.raises(CheckError, match=r"topic runtime: shared\.h does not compile"):
        build(with_file("runtime", "shared.h", "int f() { return nothing; }\n#define FACTOR 1\n"), cache)


@pytest.mark.kernel
def test_the_user_s_variables_do_not_reach_the_compiler(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build(make_series(SOURCES), cache)
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-O0 -DFACTOR=9")
    monkeypatch.setenv("CPATH", str(cache.root))
    for path in first.path.parent.glob("obj/*/*.o"):
        path.unlink()
    assert build(make_series(SOURCES), cache).data == first.data


RUN = """
import json, sys
from pathlib import Path
from tests.jobs.test_build_kernels import SOURCES, PINS
from tests.kernel_series import make_series
from toolkit.io.cache import Cache
from toolkit.jobs.build_kernels import build_kernels
from toolkit.model.progress import Silent
from toolkit.model.toolchain import ToolchainOptions
build_kernels(make_series(SOURCES), pins=PINS, cache=Cache(Path(sys.argv[1])), progress=Silent(),
              options=ToolchainOptions())
"""


@pytest.mark.kernel
@pytest.mark.parametrize("moment", ["build.ninja", "obj", "obj/rows/rows.cu.o", "_hq_C.abi3.so"])
def test_a_build_that_was_killed_is_finished_by_the_next(moment: str, cache: Cache, tmp_path: Path) -> None:
    """Killed as soon as a file appears; ninja and compilers live on, and the next run waits for them."""
    with subprocess.Popen([sys.executable, "-c", RUN, cache.root], cwd=PATCHSETS.parent) as started:
        deadline = time.monotonic() + 120
        while not list(cache.root.glob(f"kernels/*/{moment}")) and started.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.002)
        started.send_signal(signal.SIGKILL)
    finished = build(make_series(SOURCES), cache)
    whole = Cache(tmp_path / "whole")
    whole.root.mkdir()
    (whole.root / "toolchains").symlink_to(cache.root / "toolchains")
    assert finished.data == build(make_series(SOURCES), whole).data


def test_nothing_to_compile(tmp_path: Path) -> None:
    silent = make_series({"runtime": {"shared.h": "", "extra.cpp": "int x;"}})
    cache = Cache(tmp_path)
    assert build_kernels(silent, pins=PINS, cache=cache, progress=Silent(), options=ToolchainOptions()) is None
    assert plan_kernels(silent, pins=PINS, cache=cache, options=ToolchainOptions()) is None


def test_a_plan_writes_and_fetches_nothing(tmp_path: Path) -> None:
    plan = plan_kernels(make_series(SOURCES), pins=PINS, cache=Cache(tmp_path / "none"), options=ToolchainOptions())
    assert plan is not None
    assert plan.ops == {"rows": ("twice",), "other": ("thrice",)}
    assert plan.code == ("sm_86", "compute_86")
    assert plan.nvcc.fetched_bytes == (sum(wheel.size for wheel in PINS.nvcc) if plan.nvcc.nvcc is None else 0)
    assert not (tmp_path / "none").exists()


def fake_nvcc(folder: Path, release: str) -> Path:
    """Write a program that answers ``--version`` like an nvcc of that release."""
    path = folder / "nvcc"
    major_minor = release.rpartition(".")[0]
    path.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {major_minor}, V{release}'\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("release", "words"), [("12.9.86", "nvcc 12.9.86, and CUDA 13 is needed"), ("14.0.1", "CUDA 13 is needed")]
)
def test_an_nvcc_of_another_major_version(release: str, words: str, tmp_path: Path) -> None:
    options = ToolchainOptions(nvcc=str(fake_nvcc(tmp_path, release)))
    with pytest.raises(EnvironmentUnfitError, match=words):
        prepare_toolchain(PINS, options, Cache(tmp_path / "cache"), Silent())
    assert not (tmp_path / "cache").exists()


def test_no_nvcc_on_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.jobs.toolchain.system_nvcc", lambda environment: None)
    with pytest.raises(EnvironmentUnfitError, match="this machine has no nvcc"):
        choose_nvcc(PINS, ToolchainOptions(nvcc=SYSTEM), Cache(tmp_path))


def test_no_host_compiler_is_said_before_anything_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentUnfitError, match=r"there is no g\+\+"):
        prepare_toolchain(PINS, ToolchainOptions(), Cache(tmp_path / "cache"), Silent())
    assert not (tmp_path / "cache").exists()


def test_without_a_network_an_nvcc_that_does_not_fit_is_no_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    fake_nvcc(tmp_path / "bin", "12.9.86")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(EnvironmentUnfitError) as caught:
        prepare_toolchain(PINS, ToolchainOptions(), Cache(tmp_path / "cache"), Silent())
    assert "12.9" not in str(caught.value) and "nvidia" in str(caught.value)


@pytest.mark.kernel
def test_without_a_network_a_fitting_nvcc_of_the_machine_is_used(
    tmp_path: Path, toolchains: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pinned one stands for the machine's; the headers are in the cache already."""
    pinned = next(toolchains.glob("nvcc-*/nvidia/cu13"))
    (tmp_path / "cache" / "toolchains").mkdir(parents=True)
    headers = next(toolchains.glob("headers-*"))
    (tmp_path / "cache" / "toolchains" / headers.name).symlink_to(headers)
    monkeypatch.setenv("CUDA_HOME", str(pinned))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    found = prepare_toolchain(PINS, ToolchainOptions(), Cache(tmp_path / "cache"), Silent())
    assert found.origin == "this machine, for want of a network"
    assert Path(found.cuda) == pinned.resolve()


@pytest.mark.kernel
def test_a_host_compiler_that_is_too_new(tmp_path: Path, toolchains: Path) -> None:
    newer = tmp_path / "g++-99"
    newer.write_text("#!/bin/sh\necho '#define __GNUC__ 99'\n", encoding="utf-8")
    newer.chmod(0o755)
    with pytest.raises(EnvironmentUnfitError, match=r"GCC 99\.0\.0, too new for nvcc 13\.0\.88") as caught:
        prepare_toolchain(PINS, ToolchainOptions(cxx=str(newer)), Cache(toolchains.parent), Silent())
    assert "g++-15" in caught.value.fix


def test_a_series_without_a_toolchain(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no toolchain\.toml"):
        load_toolchain(tmp_path)


def hqtool(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a person does."""
    command = [sys.executable, "-m", "toolkit.cli.main", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=PATCHSETS.parent, env={**os.environ, **variables}
    )


def test_command_plans_as_json(tmp_path: Path) -> None:
    done = hqtool("--cache", str(tmp_path / "cache"), "build-kernels", "--arch", "8.6,9.0", "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)["data"]
    assert data["ops"] == {"quantized-embeddings": ["embedding_dequant"]}
    assert data["architectures"] == ["sm_86", "sm_90", "compute_90"]
    assert "src/quantized-embeddings/embedding_dequant.cu" in data["files"]
    assert not (tmp_path / "cache").exists()


def test_command_without_the_topic_has_nothing_to_do(tmp_path: Path) -> None:
    done = hqtool("--cache", str(tmp_path), "build-kernels", "--without", "quantized-embeddings", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["data"] == {"library": ""}


@pytest.mark.parametrize(
    ("arguments", "variables", "code", "words"),
    [
        (["--arch", "sm_86"], {}, 2, "is no GPU architecture"),
        (["--without", "nothing"], {}, 2, "no such topic"),
        (["--nvcc", "/nowhere/nvcc"], {}, 3, "/nowhere/nvcc cannot be run"),
        ([], {"HQTOOL_NVCC": "/nowhere/nvcc"}, 3, "/nowhere/nvcc cannot be run"),
        ([], {"HQTOOL_CXX": "/nowhere/g++"}, 3, "/nowhere/g++ cannot be run"),
    ],
)
def test_command_exit_codes(
    arguments: list[str], variables: dict[str, str], code: int, words: str, tmp_path: Path
) -> None:
    done = hqtool("--cache", str(tmp_path / "cache"), "build-kernels", *arguments, **variables)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.kernel
def test_command_builds_the_series_into_a_folder(tmp_path: Path, cache: Cache) -> None:
    done = hqtool("--cache", str(cache.root), "build-kernels", "--out", str(tmp_path / "out"), "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)["data"]
    library = tmp_path / "out" / "_hq_C.abi3.so"
    assert data["library"] == str(library)
    assert data["kernels"]["sha256"] == sha256(library.read_bytes())
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["_hq_C.abi3.so"]
