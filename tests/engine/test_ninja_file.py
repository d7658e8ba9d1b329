"""The build of the kernels as files."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import ninja
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel_series import make_series
from toolkit.engine.ninja_file import JOB_BYTES, kernel_files, object_of, operators, render
from toolkit.engine.ninja_file import job_count as jobs_for
from toolkit.model.toolchain import Toolchain

TOOLCHAIN = Toolchain(
    nvcc_version="13.0.88",
    cuda="/opt/cuda",
    cudart="lib64",
    cxx="/usr/bin/g++",
    cxx_version="12.2.0",
    headers="/opt/headers",
    headers_key="0123",
    origin="a test",
)
SERIES = make_series(
    {
        "runtime": {"op.h": "#pragma once\n", "extra.cpp": "int x;\n"},
        "rows": {"rows.cu": "", "rows.cpp": 'lib(m) { m.def("take_rows(Tensor a) -> Tensor"); m.def(\n  "b2()"); }'},
        "idle": {"idle.h": '// m.def("in_a_comment()");\n/* m.def("in_another()"); */\n'},
    }
)


def rendered(**changes: str) -> str:
    return render(kernel_files(SERIES), replace(TOOLCHAIN, **changes), arches=("8.6",), stable_abi="2.11")


def ninja_says(folder: Path, *arguments: str) -> str:
    command = [str(Path(ninja.BIN_DIR, "ninja")), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_files_lie_in_their_topic_s_folder() -> None:
    assert list(kernel_files(SERIES)) == [
        "src/runtime/extra.cpp",
        "src/runtime/op.h",
        "src/rows/rows.cpp",
        "src/rows/rows.cu",
        "src/idle/idle.h",
    ]


def test_two_topics_may_name_a_file_alike() -> None:
    files = kernel_files(make_series({"a": {"k.cu": "1", "k.cpp": "2"}, "b": {"k.cu": "3"}}))
    assert files == {"src/a/k.cpp": b"2", "src/a/k.cu": b"1", "src/b/k.cu": b"3"}
    assert len({object_of(path) for path in files}) == 3


def test_operators_are_read_from_their_registration() -> None:
    assert operators(SERIES) == {"rows": ("b2", "take_rows")}


def test_ninja_plans_what_was_meant(tmp_path: Path) -> None:
    (tmp_path / "build.ninja").write_text(rendered(), encoding="utf-8")
    commands = ninja_says(tmp_path, "-t", "commands").splitlines()
    assert len(commands) == 5  # three sources, the stand-in for libtorch, the link
    assert ninja_says(tmp_path, "-t", "targets", "rule", "nvcc").split() == ["obj/rows/rows.cu.o"]
    assert ninja_says(tmp_path, "-t", "inputs", "_hq_C.abi3.so").split() == [
        "exports.map",
        "obj/rows/rows.cpp.o",
        "obj/rows/rows.cu.o",
        "obj/runtime/extra.cpp.o",
        "src/rows/rows.cpp",
        "src/rows/rows.cu",
        "src/runtime/extra.cpp",
        "stub/empty.cpp",
        "stub/libtorch.so",
    ]


def test_a_build_names_nothing_of_the_machine_but_its_compiler() -> None:
    text = rendered(cuda="/home/me/cuda", headers="/home/me/headers")
    assert text == rendered()
    absolute = re.findall(r"(?<![\w.])/[\w/.+-]+", text)
    assert set(absolute) == {"/usr/bin/g++"}


def test_code_for_every_architecture_and_ptx_of_the_newest() -> None:
    text = render(kernel_files(SERIES), TOOLCHAIN, arches=("8.6", "9.0"), stable_abi="2.11")
    assert "arch=compute_86,code=sm_86" in text
    assert "arch=compute_90,code=sm_90" in text
    assert "arch=compute_90,code=compute_90" in text
    assert "code=compute_86" not in text


def test_the_runtime_library_is_the_compiler_s() -> None:
    assert "-l:libcudart.so.13" in rendered()
    assert "-l:libcudart.so.14" in rendered(nvcc_version="14.1.2")


@pytest.mark.parametrize("name", ["g++", "my compiler", "g++'s", "a$b", "x;true"])
def test_any_compiler_s_path_reaches_the_shell_whole(name: str, tmp_path: Path) -> None:
    compiler = tmp_path / name
    compiler.write_text('#!/bin/sh\nfor last; do :; done\nshift 1\ntouch "$(dirname "$0")/ran"\n', encoding="utf-8")
    compiler.chmod(0o755)
    (tmp_path / "stub").mkdir()
    (tmp_path / "stub" / "empty.cpp").touch()
    (tmp_path / "build.ninja").write_text(rendered(cxx=str(compiler)), encoding="utf-8")
    ninja_says(tmp_path, "stub/libtorch.so")
    assert (tmp_path / "ran").exists()


@given(st.integers(1, 256), st.integers(0, 1 << 42))
def test_jobs_fit_the_machine(cores: int, free: int) -> None:
    jobs = jobs_for(cores, free)
    assert 1 <= jobs <= cores
    assert jobs == 1 or jobs * JOB_BYTES <= free
    assert jobs == cores or (jobs + 1) * JOB_BYTES > free
