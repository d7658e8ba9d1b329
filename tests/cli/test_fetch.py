"""``hqtool fetch``: what a person sees; as a process of its own where it is interrupted or runs twice at once."""

from __future__ import annotations

import json
import resource
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.conftest import SealedGit
from tests.io.hostile_server import Answer, serving
from tests.small_release import COMMIT, FILES, ROOT, SDIST, VERSION, WHEEL, SmallRelease, closed_port, tree_files
from toolkit.cli.main import run


@pytest.fixture
def release(tmp_path: Path) -> Iterator[SmallRelease]:
    with serving() as server:
        yield SmallRelease(tmp_path, server)


class Here:
    """Runs hqtool in this process, which is quicker; returns its exit code and what it printed on its two outputs."""

    def __init__(self, release: SmallRelease, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._release, self._patch, self._capsys = release, patch, capsys

    def __call__(self, *arguments: str, more: Mapping[str, str] | None = None) -> tuple[int, str, str]:
        with self._patch.context() as patch:
            for name, value in (self._release.environment | dict(more or {})).items():
                patch.setenv(name, value)
            code = run(self._release.command(*arguments)[3:])
        printed = self._capsys.readouterr()
        return code, printed.out, printed.err


@pytest.fixture
def here(release: SmallRelease, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(release, monkeypatch, capsys)


def slowly(release: SmallRelease) -> None:
    """Let the first download take seconds, the next ones none."""
    release.serve(SDIST, Answer(release.sdist, slow=0.05), Answer(release.sdist))


def test_a_release_is_fetched_and_the_second_time_only_named(release: SmallRelease) -> None:
    code, out, err = release.run("fetch", "--wheel")
    root = release.cache.root / "trees" / release.kept.parent.name
    assert (code, out) == (0, f"vLLM {VERSION} (sdist) is in {root}\n")
    assert err.splitlines() == [
        f"downloading {SDIST} (0 MB)",
        f"unpacking {SDIST}",
        f"downloading {WHEEL} (0 MB)",
    ]
    assert tree_files(root) == FILES
    again = release.run("fetch", "--wheel", more={"HQTOOL_INDEX_URL": closed_port()})
    assert again == (0, out, "")


def test_json_names_everything(here: Here, release: SmallRelease) -> None:
    code, out, err = here("fetch", "--wheel", "--json")
    assert (code, err) == (0, "")
    data = json.loads(out)["data"]
    assert (data["pin"], data["kind"], data["commit"]) == (VERSION, "sdist", COMMIT)
    assert Path(data["root"], "vllm/__init__.py").is_file()
    assert Path(data["wheel"]).read_bytes() == release.wheel


def test_a_dry_run_says_what_is_missing_and_does_nothing(here: Here, release: SmallRelease) -> None:
    code, out, _ = here("fetch", "--wheel", "--dry-run", "--json")
    assert code == 0
    expected = {"download": [WHEEL, SDIST], "bytes": len(release.wheel) + len(release.sdist), "tag": ""}
    assert json.loads(out)["data"] == expected
    assert not release.cache.root.exists()
    assert release.server.asked == []
    assert here("fetch", "--source", "git", "--dry-run")[1] == f"to download: tag v{VERSION}\n"
    assert here("fetch")[0] == 0
    assert here("fetch", "--dry-run")[1] == "to download: nothing\n"


def test_without_network_the_error_has_cause_and_fix(here: Here, release: SmallRelease) -> None:
    address = closed_port().replace("//", "//me:secret@")
    code, out, err = here("fetch", "--json", more={"HQTOOL_INDEX_URL": address})
    assert code == 3
    assert [line.partition(":")[0] for line in err.splitlines()] == ["error", "cause", "fix"]
    assert json.loads(out)["exit_code"] == 3
    assert "secret" not in out + err


def test_wrong_bytes_are_a_finding(here: Here, release: SmallRelease) -> None:
    release.serve(SDIST, Answer(release.sdist[:-1] + b"?"))
    code, out, err = here("fetch")
    assert (code, out) == (1, "")
    assert f"error: {SDIST} has the wrong sha256\ncause: expected {release.kept.parent.name}, found " in err
    assert "Traceback" not in err
    assert tree_files(release.cache.root / "downloads") == {}


def test_a_cut_connection_is_not_even_mentioned(here: Here, release: SmallRelease) -> None:
    release.serve(SDIST, Answer(release.sdist, cut=100_000), Answer(release.sdist))
    code, _, err = here("fetch")
    assert (code, err.splitlines()) == (0, [f"downloading {SDIST} (0 MB)", f"unpacking {SDIST}"])
    assert release.ranges() == ["", "bytes=100000-"]


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_download_is_continued(release: SmallRelease, end: signal.Signals) -> None:
    slowly(release)
    running = release.start("fetch")
    release.server.wait_for_bytes(f"/files/{SDIST}", 100_000)
    running.send_signal(end)
    out, err = running.communicate(timeout=20)
    assert out == ""
    if end is signal.SIGINT:
        assert running.returncode == 130
        assert err == f"downloading {SDIST} (0 MB)\n\ninterrupted: run the same command again to continue\n"
    assert not release.kept.exists()
    arrived = release.part.stat().st_size
    assert arrived >= 80_000
    assert release.run("fetch")[0] == 0
    assert release.ranges() == ["", f"bytes={arrived}-"]
    assert release.kept.read_bytes() == release.sdist


def test_two_at_once_download_once(release: SmallRelease) -> None:
    release.serve(SDIST, Answer(release.sdist, slow=0.03))
    first = release.start("fetch")
    release.server.wait_for_bytes(f"/files/{SDIST}", 1)
    second = release.start("fetch")
    ends = [process.communicate(timeout=60) for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0)
    assert ends[0][0] == ends[1][0]
    assert release.ranges() == [""]
    assert ends[1][1].splitlines()[0] == f"waiting for another run with {SDIST}"


@pytest.mark.parametrize("room", [100_000, 250_000], ids=["download", "also the download"])
def test_a_full_disk_ends_with_its_name_and_no_half_file(release: SmallRelease, room: int) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        code, _, err = release.run("fetch")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert code == 3
    assert f"error: {release.part} cannot be written\ncause: File too large\nfix: free some space" in err
    assert not release.kept.exists()
    assert release.run("fetch")[0] == 0


def test_a_full_disk_while_unpacking_leaves_no_tree(here: Here, release: SmallRelease) -> None:
    given = release.cache.root.parent / SDIST
    given.write_bytes(release.sdist)
    assert here("fetch", "--file", str(given))[0] == 0
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    try:
        code, _, err = here("fetch")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert code == 3
    assert "File too large" in err
    assert "Traceback" not in err
    assert list((release.cache.root / "trees").iterdir()) == []
    assert here("fetch")[0] == 0


def test_a_file_from_elsewhere_is_put_into_the_cache(here: Here, release: SmallRelease, tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / SDIST
    good.write_bytes(release.sdist)
    bad.write_bytes(release.sdist[:-1])
    offline = {"HQTOOL_INDEX_URL": closed_port()}
    code, _, err = here("fetch", "--file", str(bad), more=offline)
    assert code == 1
    assert f"error: {bad} is not {SDIST} as it was released" in err
    assert here("fetch", "--file", str(good), more=offline)[:2] == (0, f"{SDIST} is in the cache\n")
    assert here("fetch", more=offline)[0] == 0


def test_git_tags_are_checked_against_the_pin(here: Here, release: SmallRelease, git: SealedGit) -> None:
    work = git.repository()
    for path, data in FILES.items():
        (work / path).parent.mkdir(exist_ok=True)
        (work / path).write_bytes(data)
    git("add", "--all", cwd=work)
    git("commit", "--quiet", "--message", "release", cwd=work)
    git("tag", f"v{VERSION}", cwd=work)
    arguments = ("fetch", "--source", "git", "--repository", str(work))
    code, _, err = here(*arguments)
    assert code == 1
    assert "is not the pinned commit" in err
    release.pin_commit(git("rev-parse", "HEAD", cwd=work).stdout.decode()[:12])
    code, out, err = here(*arguments)
    assert (code, err) == (0, f"fetching v{VERSION} from {work}\n")
    assert out.startswith(f"vLLM {VERSION} (git) is in ")


def test_git_is_missing_or_too_old(here: Here, release: SmallRelease, tmp_path: Path) -> None:
    old = tmp_path / "old" / "git"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho git version 2.20.1\n", encoding="utf-8")
    old.chmod(0o755)
    code, _, err = here("fetch", "--source", "git", more={"PATH": f"{old.parent}:/usr/bin:/bin"})
    assert code == 3
    assert "error: git is too old\ncause: it is 2.20, and 2.30 or newer is needed\nfix: install" in err
    code, _, err = here("fetch", "--source", "git", more={"PATH": str(tmp_path)})
    assert code == 3
    assert "error: git is not installed\n" in err


@pytest.mark.parametrize("options", [["--repository", "/somewhere"], ["--file", str(ROOT / "README.md"), "--dry-run"]])
def test_options_that_do_not_go_together_are_refused(here: Here, options: list[str]) -> None:
    code, _, err = here("fetch", *options)
    assert code == 2
    assert err.startswith("error: --")


def test_an_unknown_pin_is_refused(here: Here) -> None:
    code, _, err = here("fetch", "--pin", "0.1")
    assert code == 2
    assert f"patchsets/pins.toml lists {VERSION}" in err
