"""Building the wheel for real, from a tiny official wheel; nothing half-done is ever left."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from installer.sources import WheelFile as InstallerWheel

from tests.wheel_fixtures import (
    BUILT,
    BUILT_NAME,
    PACKAGE,
    PATCHED_MAIN,
    pin_of,
    tiny_series,
    topic_source,
    write_official,
    write_patchsets,
)
from toolkit.io.cache import Cache
from toolkit.jobs.build_wheel import WheelRequest, WheelResult, build_wheel, plan_wheel
from toolkit.model.errors import CheckError, EnvironmentUnfitError, UsageError
from toolkit.model.pin import Artifact
from toolkit.model.progress import Silent
from toolkit.model.topic import Series
from toolkit.model.wheel import Action


@pytest.fixture
def request_(tmp_path: Path) -> WheelRequest:
    """A request for the tiny wheel, in a folder that does not exist yet."""
    base = tmp_path / "base"
    base.mkdir()
    official = write_official(base)
    return WheelRequest(
        project="vllm",
        pin=pin_of(official),
        series=tiny_series(),
        patchsets=tmp_path / "patchsets",
        out=tmp_path / "out" / "wheels",
        base_wheel=official,
    )


def build(request: WheelRequest) -> WheelResult:
    """Build with a cache beside the output."""
    return build_wheel(request, Cache(request.out.parent / "cache"), Silent())


def files_in(folder: Path) -> list[str]:
    """Return the names in a folder, hidden ones too."""
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_the_wheel_installs_and_says_what_it_is(request_: WheelRequest, tmp_path: Path) -> None:
    result = build(request_)
    assert result.written
    assert (result.path, result.size) == (request_.out / BUILT_NAME, result.path.stat().st_size)
    with InstallerWheel.open(result.path) as wheel:
        wheel.validate_record(validate_contents=True)
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([*pip, result.path], check=True)
    script = (
        "import importlib.metadata as m, json, vllm, vllm.main; vllm.main.main();"
        "print(json.dumps([vllm.__version__, m.version('vllm'), m.metadata('vllm')['Summary'],"
        "[e.value for e in m.entry_points(group='vllm.general_plugins', name='hq_guard')]]))"
    )
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    printed, said = done.stdout.split("main\n")
    assert printed == "patched\n"
    assert json.loads(said) == [
        BUILT,
        BUILT,
        "Modified build of vLLM (not official): An engine",
        ["vllm.hq.guard:register"],
    ]
    assert os.access(site / "vllm/run.sh", os.X_OK)
    assert not os.access(site / "vllm/main.py", os.X_OK)


def test_twine_and_zipfile_accept_it(request_: WheelRequest) -> None:
    path = build(request_).path
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", path], check=True, capture_output=True)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        for name, data in PACKAGE.items():
            if name not in {"vllm/main.py", "vllm/_version.py"} and ".dist-info/" not in name:
                assert archive.read(name) == data


def test_two_builds_are_the_same_bytes(request_: WheelRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build(request_)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    old = os.umask(0o077)
    try:
        second = build(replace(request_, out=request_.out / "second"))
    finally:
        os.umask(old)
        monkeypatch.undo()
        time.tzset()
    assert second.path.read_bytes() == first.path.read_bytes()
    assert second.sha256 == first.sha256


def test_source_date_epoch_wins(request_: WheelRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    with zipfile.ZipFile(build(request_).path) as archive:
        assert {info.date_time for info in archive.infolist()} == {(2001, 9, 9, 1, 46, 40)}
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(UsageError, match="SOURCE_DATE_EPOCH"):
        build(request_)


def test_an_equal_wheel_is_left_alone_and_another_one_replaced(request_: WheelRequest) -> None:
    path = build(request_).path
    os.utime(path, (1, 1))
    again = build(request_)
    assert not again.written
    assert (path.stat().st_mtime, again.sha256) == (1, build(request_).sha256)
    good = path.read_bytes()
    for other in (good[:-1], good + b"x", b""):
        path.write_bytes(other)
        assert build(request_).written
        assert path.read_bytes() == good
    assert files_in(request_.out) == [BUILT_NAME]


def test_plan_writes_nothing(request_: WheelRequest) -> None:
    result = plan_wheel(request_, Cache(request_.out.parent / "cache"), Silent())
    assert not request_.out.exists()
    assert (result.sha256, result.written, result.path) == (None, False, request_.out / BUILT_NAME)
    found = {member.name: (member.action, member.owner) for member in result.plan.changed}
    assert found["vllm/main.py"] == (Action.REPLACE, "hook")
    assert found["vllm/hq/guard.py"] == (Action.ADD, "runtime")


def test_a_base_of_another_hash_is_refused(request_: WheelRequest) -> None:
    assert request_.base_wheel is not None
    request_.base_wheel.write_bytes(request_.base_wheel.read_bytes() + b"x")
    with pytest.raises(CheckError, match="not the official wheel"):
        build(request_)
    assert files_in(request_.out) == []


def test_a_patch_that_does_not_apply_leaves_nothing(request_: WheelRequest) -> None:
    bad = topic_source("bad", tiny_series().topics[1].patch.replace(b"def main", b"def niam"))
    series = Series(request_.pin.version, 1, (bad,))
    with pytest.raises(CheckError, match=r"vllm/main\.py"):
        build(replace(request_, series=series))
    assert files_in(request_.out) == []


def test_too_little_room_is_said_before_the_work(request_: WheelRequest) -> None:
    wheel = request_.pin.wheel
    pin = replace(request_.pin, wheel=Artifact(wheel.filename, wheel.sha256, 10**18))
    with pytest.raises(EnvironmentUnfitError, match="not enough room"):
        build(replace(request_, pin=pin))


def test_a_file_in_the_place_of_the_folder_is_said(request_: WheelRequest) -> None:
    request_.out.parent.mkdir()
    request_.out.write_text("a file", encoding="utf-8")
    with pytest.raises(EnvironmentUnfitError, match="nothing can be written"):
        build(request_)


class Command:
    """``hqtool build-wheel`` in a process of its own, on a tiny series and a base of a chosen size."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder
        self.out = folder / "out"
        base = folder / "base"
        base.mkdir(parents=True)
        official = write_official(base, {"vllm/big.bin": random.Random(1).randbytes(size), **PACKAGE})
        patchsets = write_patchsets(folder / "patchsets", pin_of(official))
        self.arguments = [
            *("--patchsets", str(patchsets), "--cache", str(folder / "cache")),
            *("build-wheel", "--base-wheel", str(official), "--out", str(self.out)),
        ]

    def run(self, *, before: str = "") -> subprocess.CompletedProcess[str]:
        """Run it to its end, after some Python statements in the same process."""
        code = f"{before}\nfrom toolkit.cli.main import main\nmain({self.arguments!r})"
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_no_room_while_writing(tmp_path: Path) -> None:
    """The limit on file sizes answers a write in the middle with an error, as a full disk does."""
    command = Command(tmp_path, 3 << 20)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))"
    done = command.run(before=limit)
    assert done.returncode == 3
    assert "no room for the wheel" in done.stderr
    assert "Traceback" not in done.stderr
    assert files_in(command.out) == []
    assert command.run().returncode == 0


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """Have a small file system in the folder while the block runs; skip the test where that is not allowed."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a file system")
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_full_disk(tmp_path: Path) -> None:
    command = Command(tmp_path, 3 << 20)
    with mounted(command.out, "size=1m"):
        done = command.run()
        assert done.returncode == 3
        assert "not enough room" in done.stderr
        assert files_in(command.out) == []


def _refused(command: Command) -> None:
    done = command.run()
    assert done.returncode == 3, done.stderr
    assert f"nothing can be written to {command.out}" in done.stderr
    assert "--out" in done.stderr


def test_a_file_system_that_is_read_only(tmp_path: Path) -> None:
    command = Command(tmp_path, 0)
    with mounted(command.out, "ro"):
        _refused(command)


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not stop root")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    command = Command(tmp_path, 0)
    command.out.mkdir(mode=0o555)
    _refused(command)


def test_kill_at_any_point(tmp_path: Path) -> None:
    command = Command(tmp_path, 30 << 20)
    begin = time.monotonic()
    assert command.run().returncode == 0
    whole = time.monotonic() - begin
    target = command.out / BUILT_NAME
    expected = target.read_bytes()
    moments = random.Random(7)
    left = 0
    for number in range(8):
        target.unlink(missing_ok=True)
        line = [sys.executable, "-m", "toolkit.cli.main", *command.arguments]
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if number % 2:
            time.sleep(whole * moments.uniform(0.2, 1.0))
        else:  # as soon as the file that is being written is there
            while process.poll() is None and not any(name != BUILT_NAME for name in files_in(command.out)):
                time.sleep(0.001)
        process.kill()
        process.wait()
        left += files_in(command.out) not in ([], [BUILT_NAME])
        assert not target.exists() or target.read_bytes() == expected
    assert left, "no kill came while the wheel was being written"
    assert command.run().returncode == 0
    assert target.read_bytes() == expected
    assert files_in(command.out) == [BUILT_NAME]


def test_interrupt_leaves_nothing(tmp_path: Path) -> None:
    command = Command(tmp_path, 1 << 20)
    stop = "import toolkit.io.wheel_file as w\ndef interrupted(*_): raise KeyboardInterrupt\nw.zlib.crc32 = interrupted"
    done = command.run(before=stop)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert files_in(command.out) == []


def test_patched_file_is_what_the_patch_says(request_: WheelRequest) -> None:
    with zipfile.ZipFile(build(request_).path) as archive:
        assert archive.read("vllm/main.py") == PATCHED_MAIN
