"""The compiled file: what it asks of its host, what it exports, what it was compiled for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from toolkit.jobs.build_kernels import KernelBuild

pytestmark = pytest.mark.kernel

# The newest versions of manylinux_2_28 (PEP 600; auditwheel's policy of that name).
NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 25), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}
ALLOWED_LIBRARIES = {"libtorch.so", "libcudart.so.13", "libstdc++.so.6", "libgcc_s.so.1", "libc.so.6", "libm.so.6"}


def needed_versions(path: Path) -> list[tuple[str, tuple[int, ...]]]:
    """Return (name, version) of every versioned symbol set that the file needs."""
    with path.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".gnu.version_r")
        names = [aux.name for _, auxiliaries in section.iter_versions() for aux in auxiliaries]
    split = [name.partition("_") for name in names if name != "libcudart.so.13"]  # its only version is its own name
    return [(name, tuple(int(part) for part in version.split("."))) for name, _, version in split]


def test_needs_nothing_beyond_manylinux_2_28(build: KernelBuild) -> None:
    versions = needed_versions(build.path)
    assert {name for name, _ in versions} >= {"GLIBC", "GLIBCXX"}
    assert [(name, version) for name, version in versions if version > NEWEST[name]] == []


def test_needs_only_libraries_that_are_there(build: KernelBuild) -> None:
    with build.path.open("rb") as file:
        tags = list(ELFFile(file).get_section_by_name(".dynamic").iter_tags())
    needed = {tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"}
    assert {"libtorch.so", "libcudart.so.13"} <= needed <= ALLOWED_LIBRARIES
    assert not [tag for tag in tags if tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH", "DT_TEXTREL")]


def test_exports_nothing_and_asks_torch_only_for_its_stable_abi(build: KernelBuild) -> None:
    with build.path.open("rb") as file:
        symbols = list(ELFFile(file).get_section_by_name(".dynsym").iter_symbols())
    defined = {symbol.name for symbol in symbols if symbol["st_shndx"] != "SHN_UNDEF" and symbol.name}
    assert defined == set()
    cxx_of_torch = [symbol.name for symbol in symbols if re.search(r"(?:c10|2at|5torch)", symbol.name)]
    assert cxx_of_torch == []
    stream = [symbol for symbol in symbols if symbol.name == "aoti_torch_get_current_cuda_stream"]
    assert [symbol["st_info"]["bind"] for symbol in stream] == ["STB_WEAK"]


def test_names_no_folder_of_this_machine(build: KernelBuild) -> None:
    for folder in (Path.home(), Path("/tmp"), build.path.parent, Path(__file__).parents[2]):  # noqa: S108
        assert bytes(folder) + b"/" not in build.data


def test_manifest_facts(build: KernelBuild) -> None:
    assert build.path.read_bytes() == build.data
    assert build.built.size == len(build.data)
    assert build.built.architectures == ("sm_86", "compute_86")
    assert build.built.nvcc == "13.0.88"
    assert dict(build.ops) == {"quantized-embeddings": ("embedding_dequant",)}
