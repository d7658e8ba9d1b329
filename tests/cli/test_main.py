"""The command's entry: every failure has a cause or a fix, the right exit code, and JSON where JSON was asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.cli.main import run


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (["check", "--nope"], 2, "No such option '--nope'."),
        (["checks"], 2, "No such command 'checks'."),
        (["topics", "--pin", "0.1"], 2, "unknown pin '0.1'"),
        (["build-wheel", "--lane", "source"], 2, "Invalid value for '--lane'"),
    ],
)
def test_failures_are_told_in_text_and_in_json(
    arguments: list[str], code: int, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "--json"]) == code
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert (told["status"], told["exit_code"]) == ("error", code)
    assert told["error"]["what"].startswith(what)
    assert told["error"]["fix"]
    assert err.startswith(f"error: {what}")
    assert "fix: " in err


def test_an_unwritable_place_is_the_machines_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    arguments = ["--cache", str(tmp_path / "file" / "cache"), "fetch", "--file", str(tmp_path / "file")]
    assert run(arguments) in (2, 3)
    assert capsys.readouterr().err.startswith("error: ")


def test_no_arguments_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    assert "Commands:" in "".join(capsys.readouterr())


def test_a_reader_that_goes_away_is_no_failure() -> None:
    command = [sys.executable, "-c", "from toolkit.cli.main import main; main(['topics', '--json'])"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    assert (running.stderr.read(), running.wait()) == ("", 0)
    running.stderr.close()
