"""``hqtool build-wheel`` and ``hqtool wheel explain``, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.wheel_fixtures import BUILT, BUILT_NAME, pin_of, write_official, write_patchsets
from toolkit.cli.main import run
from toolkit.model.ids import sha256


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments that build the tiny wheel into ./wheels of an empty folder."""
    base = tmp_path / "base"
    base.mkdir()
    official = write_official(base)
    patchsets = write_patchsets(tmp_path / "patchsets", pin_of(official))
    monkeypatch.chdir(tmp_path)
    options = ["--patchsets", str(patchsets), "--cache", str(tmp_path / "cache")]
    return [*options, "build-wheel", "--base-wheel", str(official)]


def test_build_says_where_what_and_what_next(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command) == 0
    path = Path("wheels") / BUILT_NAME
    shown = capsys.readouterr().out
    assert shown.startswith(f"wrote {path}\n")
    assert sha256(path.read_bytes()) in shown
    assert f"pip install {path}" in shown
    assert run(command) == 0
    assert capsys.readouterr().out.startswith(f"up to date: {path}\n")


def test_build_in_json(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, "--json"]) == 0
    shown = capsys.readouterr()
    data = json.loads(shown.out)["data"]
    path = Path(data["path"])
    assert (data["version"], data["pin"], data["lane"], data["written"]) == (BUILT, "0.33.0", "overlay", True)
    assert (data["size"], data["sha256"]) == (path.stat().st_size, sha256(path.read_bytes()))
    assert {"action": "replace", "path": "vllm/main.py", "topic": "hook"} in data["members"]
    assert {"action": "replace", "path": "vllm/_version.py", "topic": None} in data["members"]
    assert not shown.err


def test_dry_run_lists_and_writes_nothing(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"would write wheels/{BUILT_NAME}")
    assert [line.split() for line in lines if "vllm/main.py" in line] == [["hook", "replace", "vllm/main.py"]]
    assert not Path("wheels").exists()


def test_a_topic_can_be_left_out(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, "--without", "hook", "--json"]) == 0
    topics = {member["topic"] for member in json.loads(capsys.readouterr().out)["data"]["members"]}
    assert topics == {None, "runtime"}


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--pin", "0.1.0"], 2, "unknown pin '0.1.0'"),
        (["--lane", "other"], 2, "--lane"),
        (["--without", "nothing"], 2, "no such topic"),
        (["--arch", "sm86"], 2, "no GPU architecture"),
        (["--base-wheel", "missing.whl"], 2, "missing.whl"),
        (["--out", "/proc/wheels"], 3, "nothing can be written to /proc/wheels"),
    ],
)
def test_bad_requests(
    command: list[str], arguments: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, *arguments]) == code
    assert says in capsys.readouterr().err


def test_explain_prints_topic_by_topic(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run(command)
    capsys.readouterr()
    assert run(["wheel", "explain", f"wheels/{BUILT_NAME}"]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[0].startswith(f"vLLM 0.33.0 with 2 topics: {BUILT}, built by hqtool ")
    assert "  + vllm/hq/guard.py\n" in shown
    assert "  ~ vllm/main.py\n" in shown
    assert "+    print('patched')" not in shown
    assert run(["wheel", "explain", f"wheels/{BUILT_NAME}", "--diff", "--topic", "hook"]) == 0
    shown = capsys.readouterr().out
    assert "    +    print('patched')\n" in shown
    assert "guard.py" not in shown


def test_explain_in_json(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run(command)
    capsys.readouterr()
    assert run(["wheel", "explain", f"wheels/{BUILT_NAME}", "--diff", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    runtime, hook = data["topics"]
    assert runtime["files"][0] == {"path": "vllm/hq/__init__.py", "change": "create"}
    assert "+    print('patched')\n" in hook["diff"]
    assert data["kernels"] is None


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 2),
        (["x.whl", "--installed"], 2),
        (["x.whl", "--python", "/bin/sh"], 2),
        (["missing.whl"], 2),
        (["base/vllm-0.33.0-cp38-abi3-manylinux_2_28_x86_64.whl"], 1),
        (["wheels", "--topic", "nothing"], 2),
    ],
)
def test_explain_of_something_else(
    command: list[str], arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run(command)
    capsys.readouterr()
    target = [f"wheels/{BUILT_NAME}" if argument == "wheels" else argument for argument in arguments]
    assert run(["wheel", "explain", *target]) == code
    assert capsys.readouterr().err
