"""What compilers say, judged: outputs of real compilers, and what must be refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.engine.toolchain import (
    TOOLCHAIN_FILE,
    abi_macro,
    check_gcc,
    check_nvcc,
    code_names,
    headers_key,
    nvcc_key,
    nvcc_root,
    parse_arches,
    parse_toolchain,
)
from toolkit.model.errors import EnvironmentUnfitError, UsageError

PAGE = (Path(__file__).parents[2] / "patchsets" / TOOLCHAIN_FILE).read_text(encoding="utf-8")

NVCC_13 = """\
nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2025 NVIDIA Corporation
Built on Wed_Aug_20_01:58:59_PM_PDT_2025
Cuda compilation tools, release 13.0, V13.0.88
Build cuda_13.0.r13.0/compiler.36424714_0
"""
NVCC_12 = NVCC_13.replace("release 13.0, V13.0.88", "release 12.9, V12.9.86")
GCC_12 = "#define __GNUC__ 12\n#define __GNUC_MINOR__ 2\n#define __GNUC_PATCHLEVEL__ 0\n#define __unix__ 1\n"
HOST_CONFIG = "#if __GNUC__ > 15\n#error -- unsupported GNU version!\n#endif /* __GNUC__ > 15 */\n"


def test_the_pinned_toolchain() -> None:
    pins = parse_toolchain(PAGE)
    assert [(wheel.project, wheel.version) for wheel in pins.nvcc] == [
        ("nvidia-cuda-nvcc", "13.0.88"),
        ("nvidia-cuda-crt", "13.0.88"),
        ("nvidia-nvvm", "13.0.88"),
        ("nvidia-cuda-runtime", "13.0.96"),
        ("nvidia-cuda-cccl", "13.0.85"),
    ]
    assert pins.torch.version.startswith(pins.stable_abi)  # older headers could not offer more than that torch has
    paths = [header.path for header in pins.headers]
    assert paths == sorted(set(paths))


def test_every_mistake_is_reported() -> None:
    page = PAGE.replace('stable-abi = "2.11"', 'stable-abi = "two"').replace("cuda-major = 13", 'cuda-major = "13"')
    page = page.replace('path = "torch/csrc/stable/ops.h"', 'path = "../ops.h"').replace('project = "torch"\n', "")
    with pytest.raises(UsageError) as caught:
        parse_toolchain(page)
    assert len(caught.value.details) == 4
    assert "two" in str(caught.value) or "2.11" in str(caught.value)


def test_keys_follow_what_is_pinned() -> None:
    pins = parse_toolchain(PAGE)
    header, wheel = pins.headers[0].sha256, pins.nvcc[0].sha256
    assert headers_key(parse_toolchain(PAGE.replace(header, "0" * 64))) != headers_key(pins)
    assert nvcc_key(parse_toolchain(PAGE.replace(header, "0" * 64))) == nvcc_key(pins)
    assert nvcc_key(parse_toolchain(PAGE.replace(wheel, "0" * 64))) != nvcc_key(pins)


def test_a_fitting_nvcc() -> None:
    assert check_nvcc("/usr/bin/nvcc", NVCC_13, 13) == "13.0.88"


@pytest.mark.parametrize(
    ("output", "words"),
    [(NVCC_12, "nvcc 12.9.86, and CUDA 13 is needed"), ("hello\n", "is not nvcc"), ("", "is not nvcc")],
)
def test_an_nvcc_that_does_not_fit(output: str, words: str) -> None:
    with pytest.raises(EnvironmentUnfitError, match=words) as caught:
        check_nvcc("/opt/nvcc", output, 13)
    assert caught.value.what.startswith("/opt/nvcc")
    assert "HQTOOL_NVCC" in caught.value.fix


def test_a_fitting_gcc() -> None:
    assert check_gcc("/usr/bin/g++", GCC_12, HOST_CONFIG, "13.0.88") == "12.2.0"
    assert check_gcc("g++", GCC_12.replace("__GNUC__ 12", "__GNUC__ 15"), HOST_CONFIG, "13.0.88") == "15.2.0"
    assert check_gcc("g++", GCC_12.replace("__GNUC__ 12", "__GNUC__ 16"), "no limit stated", "14.0.1") == "16.2.0"


def test_a_gcc_that_is_too_new_says_which_is_not() -> None:
    with pytest.raises(EnvironmentUnfitError, match=r"GCC 16\.2\.0, too new for nvcc 13\.0\.88") as caught:
        check_gcc("/usr/bin/g++", GCC_12.replace("__GNUC__ 12", "__GNUC__ 16"), HOST_CONFIG, "13.0.88")
    assert "apt-get install g++-15" in caught.value.fix and "--cxx g++-15" in caught.value.fix


@pytest.mark.parametrize("macros", ["", GCC_12 + "#define __clang__ 1\n"])
def test_what_is_no_gcc(macros: str) -> None:
    with pytest.raises(EnvironmentUnfitError, match="is not GCC's g\\+\\+"):
        check_gcc("/usr/bin/clang++", macros, HOST_CONFIG, "13.0.88")


def test_root_of_the_toolkit() -> None:
    assert (
        nvcc_root("#$ _THERE_=/usr/bin\n#$ TOP=/usr/local/cuda-13.0/bin/..\n#$ X=1\n") == "/usr/local/cuda-13.0/bin/.."
    )
    assert nvcc_root("nothing") == ""


@pytest.mark.parametrize(
    ("text", "arches", "code"),
    [
        ("8.6", ("8.6",), ("sm_86", "compute_86")),
        ("9.0, 8.6", ("8.6", "9.0"), ("sm_86", "sm_90", "compute_90")),
        ("10.0,8.6,8.6", ("8.6", "10.0"), ("sm_86", "sm_100", "compute_100")),
    ],
)
def test_architectures(text: str, arches: tuple[str, ...], code: tuple[str, ...]) -> None:
    assert parse_arches(text) == arches
    assert code_names(arches) == code


@pytest.mark.parametrize("text", ["", "86", "sm_86", "8.6;9.0", "8.6,", "8.6 -O0"])
def test_what_is_no_architecture(text: str) -> None:
    with pytest.raises(UsageError, match="is no GPU architecture"):
        parse_arches(text)


def test_target_version_as_torch_s_headers_spell_it() -> None:
    assert abi_macro("2.11") == "0x020B000000000000ULL"
    assert abi_macro("2.9") == "0x0209000000000000ULL"
