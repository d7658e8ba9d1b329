"""``hqtool check`` as people and scripts call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import SealedGit
from tests.small_vllm import VERSION, SmallVllm
from toolkit.cli.main import run


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, git: SealedGit) -> SmallVllm:
    """A vLLM of ten files."""
    return SmallVllm(tmp_path_factory.mktemp("small"), git)


@pytest.fixture
def options(small: SmallVllm, tmp_path: Path) -> list[str]:
    """The global options that choose the small series."""
    return ["--patchsets", str(small.patchsets), "--cache", str(tmp_path / "cache"), "check"]


def test_text_has_the_answer_first(small: SmallVllm, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*options, str(small.site(1, "text"))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"vLLM {VERSION}, patched up to topic 1 (base) of 2"
    assert lines[1].startswith(f"installation {small.root / 'text'}: 5 files by the chain, 5 by sha256, ")
    assert len(lines) == 2


def test_json_is_one_object(small: SmallVllm, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    root = small.site(2, "edited", built=True)
    (root / "vllm/plain.py").write_bytes(b"")
    assert run([*options, str(root), "--full", "--json"]) == 1
    value = json.loads(capsys.readouterr().out)
    assert (value["command"], value["status"], value["exit_code"]) == ("check", "findings", 1)
    assert value["data"]["state"] == "modified"
    assert value["data"]["depth"] == "full"
    assert value["data"]["modified"][0]["path"] == "vllm/plain.py"


def test_wheels_are_checked_too(small: SmallVllm, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*options, str(small.wheel(2, built=True))]) == 0
    assert capsys.readouterr().out.startswith(f"fully patched vLLM {VERSION}: 2 topics of revision 3\nwheel ")


def test_failures_have_cause_and_fix(
    small: SmallVllm, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*options, str(tmp_path / "absent")]) == 2
    assert "fix: name a folder that holds vllm/, a wheel, or nothing" in capsys.readouterr().err
    assert run([*options, "--python", str(tmp_path / "absent")]) == 3
    assert "fix: name a Python with --python" in capsys.readouterr().err
    cut = tmp_path / "cut.whl"
    cut.write_bytes(small.wheel(0, "whole.whl").read_bytes()[:-30])
    assert run([*options, str(cut)]) == 1
    assert "is no wheel that can be read" in capsys.readouterr().err


def test_a_target_excludes_an_interpreter(small: SmallVllm, options: list[str]) -> None:
    root = str(small.site(0, "both"))
    assert run([*options, root, "--installed"]) == 2
    assert run([*options, root, "--python", "python3"]) == 2
