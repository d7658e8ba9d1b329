"""Archives that are whole, damaged, or made to write elsewhere."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.small_release import FILES, member, sdist_bytes, tar_gz, tree_files
from toolkit.io.unpack import unpack_sdist, unpack_wheel
from toolkit.model.errors import CheckError

Members = list[tuple[tarfile.TarInfo, bytes]]


@pytest.fixture
def into(tmp_path: Path) -> Path:
    folder = tmp_path / "deep" / "into"
    folder.mkdir(parents=True)
    return folder


def archive(into: Path, data: bytes, name: str = "vllm-1.tar.gz") -> Path:
    path = into.parent.parent / name
    path.write_bytes(data)
    return path


def special(name: str, kind: bytes, linkname: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = linkname
    return info


def outside(into: Path) -> list[str]:
    """Return what lies beside the folder and the archive."""
    root = into.parent.parent
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if not path.is_relative_to(into))


def test_an_sdist_loses_its_top_folder_and_keeps_executables(into: Path) -> None:
    unpack_sdist(archive(into, sdist_bytes()), into)
    assert tree_files(into) == FILES
    assert (into / "tools/run.sh").stat().st_mode & 0o777 == 0o755
    assert (into / "vllm/__init__.py").stat().st_mode & 0o777 == 0o644


def test_bits_beyond_executable_are_not_taken_over(into: Path) -> None:
    unpack_sdist(archive(into, tar_gz([(member("v/a", 0o4777), b""), (member("v/b", 0o666), b"")])), into)
    assert [(into / name).stat().st_mode & 0o7777 for name in "ab"] == [0o755, 0o644]


UNSAFE: dict[str, tuple[Members, str]] = {
    "absolute": ([(member("/etc/hqtool-test"), b"x")], "leaves the folder"),
    "up": ([(member("v/../../escaped"), b"x")], "leaves the folder"),
    "up at the top": ([(member("../escaped"), b"x")], "leaves the folder"),
    "backslash": ([(member("v/..\\escaped"), b"x")], "leaves the folder"),
    "symbolic link": ([(special("v/link", tarfile.SYMTYPE, "/etc"), b"")], "neither a file nor a folder"),
    "link, then through it": (
        [(special("v/link", tarfile.SYMTYPE, "../.."), b""), (member("v/link/escaped"), b"x")],
        "neither a file nor a folder",
    ),
    "hard link": ([(member("v/a"), b"x"), (special("v/b", tarfile.LNKTYPE, "/etc/passwd"), b"")], "neither a file"),
    "device": ([(special("v/null", tarfile.CHRTYPE), b"")], "neither a file nor a folder"),
    "pipe": ([(special("v/pipe", tarfile.FIFOTYPE), b"")], "neither a file nor a folder"),
    "two top folders": ([(member("v/a"), b"x"), (member("w/a"), b"x")], "several folders at the top: v, w"),
    "a file at the top": ([(member("v"), b"x")], "v is there twice, or is both"),
    "no name": ([(member("."), b"x")], "is there twice, or is both"),
    "twice": ([(member("v/a"), b"x"), (member("v/a"), b"y")], "v/a is there twice"),
    "a file as a folder": ([(member("v/a"), b"x"), (member("v/a/b"), b"y")], "v/a/b is there twice, or is both"),
    "a folder over a file": ([(member("v/a"), b"x"), (special("v/a", tarfile.DIRTYPE), b"")], "neither a file"),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_an_unsafe_sdist_is_refused(into: Path, name: str) -> None:
    members, cause = UNSAFE[name]
    with pytest.raises(CheckError) as caught:
        unpack_sdist(archive(into, tar_gz(members)), into)
    assert caught.value.what == "vllm-1.tar.gz is not safe to unpack"
    assert cause in caught.value.cause
    assert outside(into) == ["deep", "vllm-1.tar.gz"]
    assert not Path("/etc/hqtool-test").exists()


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(kept=st.integers(0, len(sdist_bytes()) - 1))
def test_a_truncated_sdist_is_refused_wherever_it_ends(tmp_path_factory: pytest.TempPathFactory, kept: int) -> None:
    into = tmp_path_factory.mktemp("cut") / "deep" / "into"
    into.mkdir(parents=True)
    with pytest.raises(CheckError, match=r"vllm-1\.tar\.gz cannot be unpacked"):
        unpack_sdist(archive(into, sdist_bytes()[:kept]), into)


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_an_sdist_whose_checksum_is_damaged_is_refused(into: Path, damage: str) -> None:
    whole = sdist_bytes()
    damaged = whole[:-1] if damage == "cut" else whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:]
    with pytest.raises(CheckError, match="cannot be unpacked"):
        unpack_sdist(archive(into, damaged), into)


def test_what_is_no_archive_is_refused(into: Path) -> None:
    with pytest.raises(CheckError, match="hqtool cache --clear"):
        unpack_sdist(archive(into, b"<html>not here</html>"), into)


def zip_bytes(members: dict[str, bytes], mode: int = 0o644) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as written:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            written.writestr(info, data)
    return packed.getvalue()


def test_a_wheel_keeps_its_executables(into: Path) -> None:
    unpack_wheel(archive(into, zip_bytes({"nvidia/bin/nvcc": b"#!"}, 0o755), "a.whl"), into)
    unpack_wheel(archive(into, zip_bytes({"nvidia/include/x.h": b"x"}), "b.whl"), into)
    assert tree_files(into) == {"nvidia/bin/nvcc": b"#!", "nvidia/include/x.h": b"x"}
    assert (into / "nvidia/bin/nvcc").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("name", ["../escaped", "a/../../escaped", "/etc/hqtool-test", "a\\..\\escaped"])
def test_a_wheel_that_leaves_the_folder_is_refused_whole(into: Path, name: str) -> None:
    with pytest.raises(CheckError, match="leaves the folder"):
        unpack_wheel(archive(into, zip_bytes({"fine.py": b"x", name: b"x"}), "a.whl"), into)
    assert tree_files(into) == {}
    assert outside(into) == ["a.whl", "deep"]


def test_a_link_in_a_wheel_becomes_no_link(into: Path) -> None:
    unpack_wheel(archive(into, zip_bytes({"link": b"/etc/passwd"}, 0o120777), "a.whl"), into)
    assert not (into / "link").is_symlink()


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_wheel_is_refused(into: Path, damage: str) -> None:
    data = bytearray(zip_bytes({"data.bin": FILES["vllm/noise.bin"]}))
    if damage == "cut":
        del data[-40:]
    else:
        data[5_000] ^= 0xFF
    with pytest.raises(CheckError, match=r"a\.whl cannot be unpacked"):
        unpack_wheel(archive(into, bytes(data), "a.whl"), into)
