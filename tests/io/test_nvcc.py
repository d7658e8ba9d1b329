"""Finding compilers: missing, hidden, broken or wrong programs, made as scripts where no real one can be had."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from toolkit.io.nvcc import host_compiler, packaged_cuda, predefined_macros, run_ninja, system_nvcc, version_output
from toolkit.model.errors import EnvironmentUnfitError


def program(path: Path, body: str = "exit 0") -> Path:
    """Write an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_cuda_home_comes_before_the_path(tmp_path: Path) -> None:
    home = program(tmp_path / "home" / "bin" / "nvcc")
    on_path = program(tmp_path / "path" / "nvcc")
    assert system_nvcc({"CUDA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}) == home
    assert system_nvcc({"PATH": str(tmp_path / "path")}) == on_path
    assert system_nvcc({"CUDA_HOME": str(tmp_path / "gone"), "PATH": str(tmp_path / "path")}) == on_path


def test_an_nvcc_that_cannot_be_executed_is_passed_over(tmp_path: Path) -> None:
    program(tmp_path / "home" / "bin" / "nvcc").chmod(0o644)
    on_path = program(tmp_path / "path" / "nvcc")
    assert system_nvcc({"CUDA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}) == on_path


def test_versions_of_the_packages_must_match() -> None:
    assert packaged_cuda({"click": "0.0.1"}) is None
    assert packaged_cuda({"a-package-that-does-not-exist": "1"}) is None


def test_no_host_compiler_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentUnfitError) as caught:
        host_compiler("")
    assert caught.value.fix == "apt-get install g++"
    with pytest.raises(EnvironmentUnfitError, match=r"g\+\+-15 cannot be run"):
        host_compiler("g++-15")


def test_host_compiler_by_name_and_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(tmp_path / "g++-15")
    assert host_compiler(str(path)) == path
    monkeypatch.setenv("PATH", str(tmp_path))
    assert host_compiler("g++-15") == path


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")
def test_the_real_host_compiler_states_its_version() -> None:
    assert "#define __GNUC__ " in predefined_macros(host_compiler(""))


def test_a_program_that_fails_shows_what_it_said(tmp_path: Path) -> None:
    broken = program(tmp_path / "nvcc", "echo cannot open shared object file; exit 127")
    with pytest.raises(EnvironmentUnfitError, match="does not work") as caught:
        version_output(broken)
    assert caught.value.details == ("cannot open shared object file",)
    assert "127" in caught.value.cause


@pytest.mark.parametrize("content", [b"\x7fELF\x02\x01\x01 of another machine", b""])
def test_a_file_that_is_no_program(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "nvcc"
    path.write_bytes(content)
    path.chmod(0o755)
    with pytest.raises(EnvironmentUnfitError, match="cannot be run"):
        version_output(path)


def test_a_missing_program_and_one_without_permission(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnfitError, match="cannot be run") as caught:
        version_output(tmp_path / "nvcc")
    assert caught.value.cause == "No such file or directory"
    program(tmp_path / "locked").chmod(0o644)
    with pytest.raises(EnvironmentUnfitError, match="cannot be run") as caught:
        version_output(tmp_path / "locked")
    assert caught.value.cause == "Permission denied"


def test_ninja_s_steps_see_no_variable_that_changes_compilers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CPATH", "NVCC_APPEND_FLAGS", "CUDA_HOME"):
        monkeypatch.setenv(name, "/somewhere")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    rule = "rule env\n  command = env > $out\nbuild seen: env\n"
    (tmp_path / "build.ninja").write_text(rule, encoding="utf-8")
    lines: list[str] = []
    done = run_ninja(tmp_path, jobs=1, status="[%f/%t] ", on_line=lines.append, inherit=())
    assert done.code == 0
    assert lines == ["[1/1] env > seen\n"]
    seen = dict(line.split("=", 1) for line in (tmp_path / "seen").read_text().splitlines() if "=" in line)
    assert not {"CPATH", "NVCC_APPEND_FLAGS", "CUDA_HOME"} & set(seen)
    assert seen["LC_ALL"] == "C"
    assert seen["PATH"] == os.environ["PATH"]
