"""Downloads from a server that misbehaves."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.io.hostile_server import Answer, HostileServer, serving
from tests.small_release import ROOT, artifact_of
from toolkit.io.download import download
from toolkit.io.web import Patience
from toolkit.model.errors import CheckError, EnvironmentUnfitError
from toolkit.model.progress import Silent, Task

DATA = Random(1).randbytes(200_000)
FILE = artifact_of("file.bin", DATA)
QUICK = Patience(pause=0.001)


class Counting(Silent):
    """Progress that adds up what it is told."""

    def __init__(self) -> None:
        self.total: int | None = None
        self.done = 0
        self.lowest = 0
        self.finished = 0

    def task(self, label: str, total: int | None, *, unit: str = "bytes") -> Task:
        self.total = total
        return self

    def advance(self, amount: int) -> None:
        self.done += amount
        self.lowest = min(self.lowest, self.done)

    def finish(self) -> None:
        self.finished += 1


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as running:
        yield running


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "downloads" / "file.bin"


def part_of(target: Path) -> Path:
    return target.with_name("file.bin.part")


def fetch(server: HostileServer, target: Path, *answers: Answer, path: str = "/file.bin") -> Counting:
    """Download the file from a server that answers so; the progress must come out right."""
    url = server.script(path, *answers)
    counted = Counting()
    try:
        download(url, target, FILE, counted, patience=QUICK)
    finally:
        assert counted.finished == 1
        assert counted.lowest == 0
    assert counted.done == counted.total == len(DATA)
    assert target.read_bytes() == DATA
    assert not part_of(target).exists()
    return counted


def refused(server: HostileServer, target: Path, *answers: Answer) -> CheckError | EnvironmentUnfitError:
    """Return the error; nothing may have the final name."""
    with pytest.raises((CheckError, EnvironmentUnfitError)) as caught:
        fetch(server, target, *answers)
    assert not target.exists()
    assert caught.value.cause
    assert caught.value.fix
    return caught.value


def test_a_whole_file_takes_one_request(server: HostileServer, target: Path) -> None:
    fetch(server, target, Answer(DATA))
    assert server.ranges("/file.bin") == [""]


def test_a_cut_connection_is_continued_where_it_broke(server: HostileServer, target: Path) -> None:
    fetch(server, target, Answer(DATA, cut=70_000), Answer(DATA, cut=30_000), Answer(DATA))
    assert server.ranges("/file.bin") == ["", "bytes=70000-", "bytes=100000-"]
    assert sum(asked.sent for asked in server.asked) == len(DATA)


@pytest.mark.parametrize("length", [True, False])
def test_many_cuts_are_no_failure_while_bytes_arrive(server: HostileServer, target: Path, length: bool) -> None:
    fetch(server, target, Answer(DATA, cut=17_000, states_length=length))
    assert len(server.asked) == 12  # 200 kB at 17 kB a time


def test_a_server_without_ranges_begins_again(server: HostileServer, target: Path) -> None:
    fetch(server, target, Answer(DATA, cut=50_000), Answer(DATA, ranges=False))
    assert server.ranges("/file.bin") == ["", "bytes=50000-"]


def test_a_server_that_begins_again_and_breaks_off_is_given_up(server: HostileServer, target: Path) -> None:
    cuts = [Answer(DATA, ranges=False, cut=cut) for cut in (50_000, 60_000, *([50_000, 60_000] * 10))]
    error = refused(server, target, *cuts)
    assert isinstance(error, EnvironmentUnfitError)
    assert len(server.asked) == 6


def test_a_part_that_nobody_asked_for_is_not_appended(server: HostileServer, target: Path) -> None:
    odd = Answer(DATA[:9], status=206, headers={"Content-Range": f"bytes 5-13/{len(DATA)}"})
    fetch(server, target, Answer(DATA, cut=50_000), odd, Answer(DATA))
    assert server.ranges("/file.bin") == ["", "bytes=50000-", ""]


def test_an_earlier_part_is_taken_up(server: HostileServer, target: Path) -> None:
    target.parent.mkdir()
    part_of(target).write_bytes(DATA[:123_456])
    fetch(server, target, Answer(DATA))
    assert server.ranges("/file.bin") == ["bytes=123456-"]
    assert server.asked[0].sent == len(DATA) - 123_456


def test_a_complete_part_needs_no_server(target: Path) -> None:
    target.parent.mkdir()
    part_of(target).write_bytes(DATA)
    download("http://127.0.0.1:9/file.bin", target, FILE, Silent())
    assert target.read_bytes() == DATA


@pytest.mark.parametrize(("left", "asked"), [(b"x" * 1000, ["bytes=1000-", ""]), (b"x" * len(DATA), [""])])
def test_a_part_with_bad_bytes_costs_one_more_download(
    server: HostileServer, target: Path, left: bytes, asked: list[str]
) -> None:
    target.parent.mkdir()
    part_of(target).write_bytes(left)
    fetch(server, target, Answer(DATA))
    assert server.ranges("/file.bin") == asked


def test_an_error_page_in_the_middle_costs_one_more_download(server: HostileServer, target: Path) -> None:
    page = Answer(b"<html>come back later</html>", states_length=False)
    fetch(server, target, page, Answer(DATA))
    assert server.ranges("/file.bin") == ["", "bytes=28-", ""]


def test_pieces_that_stay_wrong_are_given_up(server: HostileServer, target: Path) -> None:
    bad = DATA[:-1] + b"\0"
    assert "wrong sha256" in refused(server, target, Answer(bad, cut=50_000), Answer(bad)).what
    assert server.ranges("/file.bin") == ["", "bytes=50000-", ""]
    assert list(target.parent.iterdir()) == []


def test_a_part_that_is_too_long_is_not_used(server: HostileServer, target: Path) -> None:
    target.parent.mkdir()
    part_of(target).write_bytes(DATA + b"more")
    fetch(server, target, Answer(DATA))
    assert server.ranges("/file.bin") == [""]


def test_wrong_bytes_are_not_kept(server: HostileServer, target: Path) -> None:
    error = refused(server, target, Answer(DATA[:-1] + b"\0"))
    assert isinstance(error, CheckError)
    assert FILE.sha256 in error.cause
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize("length", [True, False])
@pytest.mark.parametrize(
    "body", [b"<html>log in first</html>", DATA + b"tail", DATA[:-7]], ids=["page", "long", "short"]
)
def test_a_file_of_another_size_is_refused(server: HostileServer, target: Path, length: bool, body: bytes) -> None:
    error = refused(server, target, Answer(body, states_length=length))
    if length:
        assert isinstance(error, CheckError)
        assert f"expected 200,000 bytes, and {server.url}/file.bin has {len(body):,}" in error.cause
        assert [asked.path for asked in server.asked] == ["/file.bin"]
    else:
        assert len(server.asked) < 12


def test_a_length_that_is_not_kept_is_a_cut(server: HostileServer, target: Path) -> None:
    lying = Answer(DATA[:1000], headers={"Content-Length": str(len(DATA))})
    fetch(server, target, lying, Answer(DATA))
    assert server.ranges("/file.bin") == ["", "bytes=1000-"]


def test_a_part_longer_than_the_servers_file_is_fetched_anew(server: HostileServer, target: Path) -> None:
    target.parent.mkdir()
    part_of(target).write_bytes(DATA[:100_000])
    fetch(server, target, Answer(DATA[:5_000], states_length=False), Answer(DATA))
    assert server.ranges("/file.bin") == ["bytes=100000-", ""]


def test_a_slow_server_is_waited_for(server: HostileServer, target: Path) -> None:
    fetch(server, target, Answer(DATA, slow=0.01))
    assert len(server.asked) == 1


def test_a_busy_server_is_asked_again_when_it_says(server: HostileServer, target: Path) -> None:
    began = time.monotonic()
    fetch(server, target, Answer(status=503, headers={"Retry-After": "1"}), Answer(DATA))
    assert 1 <= time.monotonic() - began < 10


@pytest.mark.parametrize("stated", ["", "soon", "\N{SUPERSCRIPT TWO}", "Wed, 21 Oct 2015 07:28:00 GMT", "-1"])
def test_other_retry_times_mean_the_usual_pause(server: HostileServer, target: Path, stated: str) -> None:
    fetch(server, target, Answer(status=429, headers={"Retry-After": stated}), Answer(DATA))


@pytest.mark.parametrize(("status", "requests"), [(404, 1), (403, 1), (410, 1), (500, 5), (503, 5)])
def test_only_what_may_pass_is_tried_again(server: HostileServer, target: Path, status: int, requests: int) -> None:
    error = refused(server, target, Answer(status=status))
    assert isinstance(error, EnvironmentUnfitError)
    assert error.cause == f"{server.url}/file.bin: HTTP {status}"
    assert len(server.asked) == requests


def test_redirects_are_followed_also_when_continuing(server: HostileServer, target: Path) -> None:
    server.script("/real", Answer(DATA, cut=60_000), Answer(DATA))
    fetch(server, target, Answer(status=302, headers={"Location": "/real"}))
    assert server.ranges("/real") == ["", "bytes=60000-"]


def test_redirects_in_a_circle_are_given_up_at_once(server: HostileServer, target: Path) -> None:
    refused(server, target, Answer(status=302, headers={"Location": "/file.bin"}))
    assert len(server.asked) < 25


def test_a_redirect_away_from_http_is_refused(server: HostileServer, target: Path) -> None:
    refused(server, target, Answer(status=302, headers={"Location": "file:///etc/passwd"}))
    assert len(server.asked) == 1


def test_a_password_in_the_address_is_sent_and_never_shown(server: HostileServer, target: Path) -> None:
    server.script("/file.bin", Answer(status=404))
    with pytest.raises(EnvironmentUnfitError) as caught:
        download(
            f"{server.url.replace('//', '//me:secret@')}/file.bin?token=secret", target, FILE, Silent(), patience=QUICK
        )
    assert server.asked[0].login.startswith("Basic ")
    assert "secret" not in str(caught.value)


def test_a_killed_download_is_continued(server: HostileServer, target: Path) -> None:
    url = server.script("/file.bin", Answer(DATA, slow=0.05))
    code = (
        "import sys; from pathlib import Path; from toolkit.io.download import download; from toolkit.model.pin import"
        " Artifact; from toolkit.model.progress import Silent;"
        " download(sys.argv[1], Path(sys.argv[2]), Artifact('file.bin', sys.argv[3], int(sys.argv[4])), Silent())"
    )
    arguments = [url, str(target), FILE.sha256, str(FILE.size)]
    running = subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=ROOT)
    server.wait_for_bytes("/file.bin", 60_000)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert not target.exists()
    arrived = part_of(target).stat().st_size
    assert arrived >= 40_000
    fetch(server, target, Answer(DATA))
    assert server.ranges("/file.bin")[-1] == f"bytes={arrived}-"


def test_a_full_disk_is_said_and_nothing_gets_the_final_name(server: HostileServer, target: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        error = refused(server, target, Answer(DATA))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(error, EnvironmentUnfitError)
    assert error.what == f"{part_of(target)} cannot be written"
    assert error.cause == os.strerror(27)
    assert "--cache" in error.fix
    fetch(server, target, Answer(DATA))
