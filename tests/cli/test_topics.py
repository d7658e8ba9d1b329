"""``hqtool topics`` and PATCHES.md, with the shipped series and with a checkout of its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from toolkit.cli.main import run

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that looks like a checkout: the shipped series beside a pyproject.toml."""
    shutil.copytree(ROOT / "patchsets", tmp_path / "patchsets")
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


def test_the_table_lists_the_topics_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topics"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 topics for vLLM 0.33.0, revision 1"
    assert [line.split()[0] for line in lines[1:]] == ["topic", "runtime", "quantized-embeddings"]


@pytest.mark.parametrize("pin", ["0.33.0", "0.32.0"])
def test_json_says_what_each_topic_touches(pin: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topics", "--pin", pin, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert (data["pin"], data["revision"]) == (pin, 1)
    embeddings = data["topics"][1]
    assert embeddings["kind"] == "memory"
    assert "vllm/model_executor/models/qwen3_5.py" in [file["path"] for file in embeddings["touched"]]
    assert sum(file["added"] + file["removed"] for file in embeddings["touched"]) <= 30


def test_an_unknown_pin_names_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topics", "--pin", "0.1"]) == 2
    assert "patchsets/pins.toml lists 0.33.0, 0.32.0" in capsys.readouterr().err


def test_the_shipped_page_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--patchsets", str(ROOT / "patchsets"), "topics", "--verify"]) == 0, capsys.readouterr().out


def test_the_page_is_written_once_and_verified(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    series = ["--patchsets", str(checkout / "patchsets"), "topics"]
    assert run([*series, "--verify"]) == 1
    assert "fix" not in capsys.readouterr().err
    assert run([*series, "--write"]) == 0
    assert capsys.readouterr().out == "wrote PATCHES.md\n"
    written = (checkout / "PATCHES.md").read_bytes()
    assert run([*series, "--write"]) == 0
    assert capsys.readouterr().out == "PATCHES.md was up to date\n"
    assert (checkout / "PATCHES.md").read_bytes() == written
    assert run([*series, "--verify"]) == 0
    manifest = checkout / "patchsets" / "runtime" / "topic.toml"
    manifest.write_text(manifest.read_text(encoding="utf-8").replace("title = ", "title = 'New' #"), encoding="utf-8")
    assert run([*series, "--verify"]) == 1
    assert "PATCHES.md is out of date" in capsys.readouterr().out


def test_there_is_no_page_outside_a_checkout(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "pyproject.toml").unlink()
    assert run(["--patchsets", str(checkout / "patchsets"), "topics", "--write"]) == 2
    assert "is no checkout of hqtool" in capsys.readouterr().err
    assert not (checkout / "PATCHES.md").exists()


def test_three_mistakes_of_a_manifest_are_all_shown(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = checkout / "patchsets" / "runtime" / "topic.toml"
    text = manifest.read_text(encoding="utf-8")
    for right, wrong in (('kind = "runtime"', 'kind = "core"'), ("lossless = true", "lossless = 1"), ("why =", "wy =")):
        assert right in text
        text = text.replace(right, wrong)
    manifest.write_text(text, encoding="utf-8")
    assert run(["--patchsets", str(checkout / "patchsets"), "topics"]) == 2
    shown = capsys.readouterr().err
    for mistake in (
        "kind: is 'core', not one of",
        "numbers.lossless: is 1, not true or false",
        "why: is missing",
        "wy: is",
    ):
        assert f"  runtime/topic.toml: {mistake}" in shown


def test_write_and_verify_exclude_each_other() -> None:
    assert run(["topics", "--write", "--verify"]) == 2
