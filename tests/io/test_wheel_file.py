"""Wheels as archives: what is copied stays the same byte for byte, what is written can be read by everyone."""

from __future__ import annotations

import struct
import subprocess
import sys
import zipfile
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wheel_fixtures import EXECUTABLE, PACKAGE, STORED, write_official
from toolkit.io.wheel_file import WheelFile, compare_file, wheel_chunks, write_file
from toolkit.model.errors import CheckError, EnvironmentUnfitError, UsageError
from toolkit.model.ids import sha256
from toolkit.model.progress import Silent
from toolkit.model.wheel import Action, PlannedMember

WHEN = datetime(2026, 11, 2, 3, 4, 5, tzinfo=UTC)


def keep_all(wheel: WheelFile) -> list[PlannedMember]:
    """Return a plan that copies every member."""
    return [PlannedMember(name, Action.KEEP, name, executable) for name, executable in wheel.members.items()]


def built(wheel: Path, members: list[PlannedMember], when: datetime = WHEN) -> bytes:
    """Return the bytes of the wheel with those members."""
    with WheelFile(wheel) as source:
        return b"".join(wheel_chunks(source, members, when))


def unpacked(path: Path) -> dict[str, tuple[bytes, int]]:
    """Return every member's bytes and mode, as the standard library reads them."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {info.filename: (archive.read(info), info.external_attr >> 16) for info in archive.infolist()}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("folders", [False, True])
def test_a_copy_holds_the_same_members(tmp_path: Path, streamed: bool, folders: bool) -> None:
    official = write_official(tmp_path, streamed=streamed, folders=folders)
    if streamed:
        with zipfile.ZipFile(official) as archive:
            assert all(info.flag_bits & 0x8 for info in archive.infolist() if not info.is_dir())
    with WheelFile(official) as wheel:
        plan = keep_all(wheel)
    copy = tmp_path / "copy.whl"
    copy.write_bytes(built(official, plan))
    found = unpacked(copy)
    assert list(found)[:-1] == list(PACKAGE)
    for name, data in PACKAGE.items():
        assert found[name] == (data, 0o100755 if name in EXECUTABLE else 0o100644), name
    with zipfile.ZipFile(copy) as archive:
        for info in archive.infolist():
            assert info.date_time == (2026, 11, 2, 3, 4, 4)
            assert info.compress_type == (zipfile.ZIP_STORED if info.filename in STORED else zipfile.ZIP_DEFLATED)
            assert info.flag_bits & 0x8 == 0
    assert built(copy, plan) == copy.read_bytes()


def test_other_readers_accept_it(tmp_path: Path) -> None:
    official = write_official(tmp_path, streamed=True)
    with WheelFile(official) as wheel:
        members = [*keep_all(wheel), PlannedMember("vllm/d\u00e9j\u00e0.py", Action.ADD, data=b"x = 1\n")]
    copy = tmp_path / "copy.whl"
    copy.write_bytes(built(official, members))
    subprocess.run([sys.executable, "-m", "zipfile", "-t", copy], check=True, capture_output=True)
    subprocess.run([sys.executable, "-m", "zipfile", "-e", copy, tmp_path / "out"], check=True)
    assert (tmp_path / "out/vllm/d\u00e9j\u00e0.py").read_bytes() == b"x = 1\n"


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_characters="/\\\0:", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30),
        st.binary(max_size=3000),
        max_size=8,
    )
)
def test_new_members_come_back(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    folder = tmp_path_factory.mktemp("wheel")
    official = write_official(folder)
    members = [PlannedMember(f"vllm/{name}", Action.ADD, data=data) for name, data in files.items()]
    copy = folder / "copy.whl"
    copy.write_bytes(built(official, members))
    assert {name: data for name, (data, _) in unpacked(copy).items()} == {f"vllm/{n}": d for n, d in files.items()}
    with WheelFile(copy) as wheel:
        assert all(wheel.read(f"vllm/{name}") == data for name, data in files.items())


def test_time_zone_of_the_machine_does_not_show(tmp_path: Path) -> None:
    official = write_official(tmp_path)
    with WheelFile(official) as wheel:
        plan = keep_all(wheel)
    east = WHEN.astimezone(timezone(timedelta(hours=9)))
    assert built(official, plan, east) == built(official, plan)


@pytest.mark.parametrize("year", [1970, 1979, 2108])
def test_a_time_that_zip_cannot_state_is_refused(tmp_path: Path, year: int) -> None:
    official = write_official(tmp_path)
    with pytest.raises(UsageError, match="SOURCE_DATE_EPOCH"):
        built(official, [], datetime(year, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("data", [b"", b"PK", b"not a zip", bytes(1000)])
def test_a_file_that_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.whl"
    path.write_bytes(data)
    with pytest.raises(CheckError, match="no wheel that can be read"):
        WheelFile(path)


def test_a_truncated_archive_is_refused(tmp_path: Path) -> None:
    official = write_official(tmp_path)
    official.write_bytes(official.read_bytes()[:-400])
    with pytest.raises(CheckError):
        WheelFile(official)


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    official = write_official(tmp_path)
    data = bytearray(official.read_bytes())
    data[data.index(b"print('main')") + 2] ^= 1
    official.write_bytes(data)
    with WheelFile(official) as wheel, pytest.raises(CheckError, match=r"vllm/main\.py"):
        wheel.read("vllm/main.py")


def test_a_header_that_disagrees_with_the_directory_is_found(tmp_path: Path) -> None:
    official = write_official(tmp_path)
    data = bytearray(official.read_bytes())
    place = data.index(b"vllm/main.py")
    data[place : place + 12] = b"vllm/niam.py"
    official.write_bytes(data)
    with WheelFile(official) as wheel, pytest.raises(CheckError, match="names another file"):
        list(wheel.raw("vllm/main.py"))


def test_a_directory_that_points_elsewhere_is_found(tmp_path: Path) -> None:
    official = write_official(tmp_path)
    data = bytearray(official.read_bytes())
    central = data.rindex(b"vllm/main.py") - 46
    struct.pack_into("<L", data, central + 42, 7)
    official.write_bytes(data)
    with WheelFile(official) as wheel, pytest.raises(CheckError, match="does not begin"):
        list(wheel.raw("vllm/main.py"))


def test_an_unknown_compression_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a", b"a" * 100)
    with pytest.raises(CheckError, match="neither stored nor deflated"):
        WheelFile(path)


def test_a_missing_member_is_named(tmp_path: Path) -> None:
    with WheelFile(write_official(tmp_path)) as wheel, pytest.raises(CheckError, match=r"it has no vllm/nothing\.py"):
        wheel.read("vllm/nothing.py")


def test_a_wheel_of_too_many_members_is_refused(tmp_path: Path) -> None:
    official = write_official(tmp_path)
    members = [PlannedMember(f"{number}", Action.ADD) for number in range(65_535)]
    with pytest.raises(CheckError, match="65,534 members"):
        built(official, members)
    assert built(official, members[:-1]).startswith(b"PK")


def test_write_and_compare(tmp_path: Path) -> None:
    path = tmp_path / "f"
    chunks = [b"one", b"", b"two"]
    digest = write_file(path, chunks, Silent().task("x", None))
    assert path.read_bytes() == b"onetwo"
    assert digest == sha256(b"onetwo")
    assert compare_file(path, chunks) == (True, digest)
    for other in ([b"one"], [b"one", b"twoo"], [b"onf", b"two"], []):
        assert not compare_file(path, other)[0]


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    """/dev/full answers every write with ENOSPC."""
    path = tmp_path / "full"
    path.symlink_to("/dev/full")
    with pytest.raises(EnvironmentUnfitError, match="no room") as caught:
        write_file(path, [bytes(1 << 20)] * 3, Silent().task("x", None))
    assert "--out" in caught.value.fix
