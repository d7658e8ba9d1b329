"""``hqtool pins`` against the shipped list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolkit.cli.main import run


def test_the_table_shows_every_release(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pins"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 releases of vllm, 0.33.0 by default"
    assert [line.split()[:4] for line in lines[2:]] == [
        ["0.33.0", "yes", "v0.33.0", "4ba787ec9"],
        ["0.32.0", "v0.32.0", "5df63a720", "2026-10-18"],
    ]
    assert "47.1 MB" in lines[2]


def test_json_has_hashes_and_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pins", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert data["default"] == "0.33.0"
    assert [pin["sdist"]["size"] for pin in data["pins"]] == [47101396, 44549956]
    assert all(len(pin[kind]["sha256"]) == 64 for pin in data["pins"] for kind in ("sdist", "wheel"))


def test_another_folder_can_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--patchsets", str(tmp_path), "pins", "--json"]) == 2
    output = capsys.readouterr()
    assert json.loads(output.out)["error"]["fix"] == "name the folder of the series with --patchsets"
    assert "has no pins.toml" in output.err


def test_all_mistakes_of_the_list_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pins.toml").write_text("project = 1\nrepository = 'x'\n[[pins]]\n", encoding="utf-8")
    assert run(["--patchsets", str(tmp_path), "pins"]) == 2
    shown = capsys.readouterr().err
    assert "cause: 11 mistakes in pins.toml" in shown
    assert "  pins.toml: pins #1.sdist: is missing" in shown
