"""The series as a folder: what is read, and that everything wrong with it is reported together."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.jobs.series import load_order, load_pins, load_series
from toolkit.model.errors import UsageError

PIN = """\
[[pins]]
version = "{version}"
tag = "v{version}"
commit = "012345678"
released = "2026-01-01"
torch = "2.14.0"
triton = "3.8.0"
sdist = {{ filename = "vllm-{version}.tar.gz", sha256 = "{digest}", size = 1 }}
wheel = {{ filename = "vllm-{version}.whl", sha256 = "{digest}", size = 1 }}
"""

TOPIC = """\
id = "{name}"
title = "Title of {name}"
kind = "fix"
what = "What."
why = "Why."
probe = "tests/probes/test_it.py"
upstream = {{ state = "pending" }}
numbers = {{ lossless = true }}
retires-when = [{{ rule = "reverse-applies" }}]
"""


class Folder:
    """A patchsets folder that a test fills."""

    def __init__(self, root: Path) -> None:
        self.root = root
        pins = "".join(PIN.format(version=version, digest="0" * 64) for version in ("1.1.0", "1.0.0"))
        self.write("pins.toml", f'project = "vllm"\nrepository = "https://example.org/v"\ndefault = "1.1.0"\n{pins}')
        self.write("series.toml", "revision = 4\n")

    def write(self, path: str, text: str | bytes) -> None:
        """Write one file."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())

    def topic(self, name: str, *requires: str, patches: tuple[str, ...] = ("1.1.0", "1.0.0"), pins: str = "") -> None:
        """Add a topic to the end of the series."""
        self.write(f"{name}/topic.toml", TOPIC.format(name=name))
        for pin in patches:
            self.write(f"{name}/{pin}.patch", f"patch of {name} for {pin}\n")
        with (self.root / "series.toml").open("a", encoding="utf-8") as series:
            series.write(f'[[topics]]\nid = "{name}"\nrequires = {list(requires)}\n{pins}\n')

    def mistakes(self, pin: str = "1.1.0", *without: str) -> list[str]:
        """Return what `load_series` says is wrong."""
        with pytest.raises(UsageError) as caught:
            load_series(self.root, pin, without=without)
        return list(caught.value.details)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A folder with two pins and no topic."""
    return Folder(tmp_path / "patchsets")


def test_a_series_is_read_in_order_with_all_that_topics_bring(folder: Folder) -> None:
    folder.topic("z-first")
    folder.topic("a-second", "z-first")
    folder.write("a-second/files/vllm/hq/new.py", "x = 1\n")
    folder.write("a-second/files/vllm/hq/deep/data.bin", b"\xff\x00")
    folder.write("a-second/csrc/op.cu", "// op\n")
    folder.write("a-second/csrc/op.cuh", "// header\n")
    series = load_series(folder.root, "1.0.0")
    assert (series.pin, series.revision, series.ids) == ("1.0.0", 4, ("z-first", "a-second"))
    first, second = series.topics
    assert (first.patch, first.files, first.kernels) == (b"patch of z-first for 1.0.0\n", {}, {})
    assert second.files == {"vllm/hq/deep/data.bin": b"\xff\x00", "vllm/hq/new.py": b"x = 1\n"}
    assert second.kernels == {"op.cu": b"// op\n", "op.cuh": b"// header\n"}


def test_topics_of_other_pins_are_left_out(folder: Folder) -> None:
    folder.topic("both")
    folder.topic("new-only", patches=("1.1.0",), pins='pins = ["1.1.0"]')
    assert load_series(folder.root, "1.1.0").ids == ("both", "new-only")
    assert load_series(folder.root, "1.0.0").ids == ("both",)


def test_topics_can_be_left_out_with_those_that_require_them(folder: Folder) -> None:
    folder.topic("base")
    folder.topic("middle", "base")
    folder.topic("top", "middle")
    assert load_series(folder.root, "1.1.0", without=("top", "middle")).ids == ("base",)
    assert folder.mistakes("1.1.0", "base", "tpo") == [
        "--without tpo: no such topic; the series has base, middle, top",
        "--without base: middle requires it; leave out middle too",
    ]


def test_a_topic_without_hooks_needs_no_patch(folder: Folder) -> None:
    folder.topic("files-only", patches=())
    folder.write("files-only/files/vllm/hq/a.py", "")
    assert load_series(folder.root, "1.1.0").topics[0].patch == b""


def test_leftovers_are_ignored(folder: Folder) -> None:
    folder.topic("one")
    folder.write("one/files/vllm/hq/a.py", "")
    for name in ("__pycache__/a.pyc", "one/1.1.0.patch.orig", "one/files/vllm/hq/__pycache__/a.pyc", "one/.DS_Store"):
        folder.write(name, b"\x00")
    folder.write("__init__.py", "")
    assert set(load_series(folder.root, "1.1.0").topics[0].files) == {"vllm/hq/a.py"}


def test_everything_wrong_is_reported_at_once(folder: Folder) -> None:
    folder.topic("empty", patches=())
    folder.topic("half", patches=("1.0.0",))
    folder.topic("stray")
    folder.write("stray/readme.txt", "")
    folder.write("stray/files/vllm/other.py", "")
    folder.write("stray/csrc/deep/op.cu", "")
    folder.topic("broken")
    folder.write("broken/topic.toml", TOPIC.format(name="broken").replace('"fix"', '"fixx"').replace("title", "titel"))
    folder.topic("binary")
    folder.write("binary/topic.toml", b"\xff\xfe")
    folder.topic("typo", pins='pins = ["1.1.O"]')
    folder.write("series.toml", (folder.root / "series.toml").read_bytes() + b'[[topics]]\nid = "absent"\n')
    folder.write("unlisted/topic.toml", "")
    found = folder.mistakes()
    expected = [
        "unlisted: is a folder that series.toml does not list",
        "series.toml: typo: pins has '1.1.O', which pins.toml does not list",
        "broken/topic.toml: title: is missing",
        "broken/topic.toml: kind: is 'fixx', not one of",
        "broken/topic.toml: titel: is an unknown key",
        "binary/topic.toml: it is not UTF-8",
        "absent: is listed in series.toml, but has no folder",
        "empty: changes nothing",
        "half/1.1.0.patch: is missing, though there is one for 1.0.0",
        "stray/csrc/deep/op.cu: does not belong in a topic",
        "stray/files/vllm/other.py: does not belong in a topic",
        "stray/readme.txt: does not belong in a topic",
    ]
    assert len(found) == len(expected)
    for line, start in zip(found, expected, strict=True):
        assert line.startswith(start)


def test_links_are_refused_wherever_they_lead(folder: Folder, tmp_path: Path) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("secret = 1\n", encoding="utf-8")
    folder.topic("linked")
    folder.write("linked/files/vllm/hq/real.py", "")
    (folder.root / "linked/files/vllm/hq/link.py").symlink_to(secret)
    (folder.root / "linked/csrc").symlink_to(tmp_path)
    folder.topic("moved")
    (folder.root / "moved").rename(tmp_path / "elsewhere")
    (folder.root / "moved").symlink_to(tmp_path / "elsewhere")
    assert folder.mistakes() == [
        "moved: is a symbolic link; the files of a topic lie in its own folder",
        "linked/csrc: is a symbolic link; put the file itself there",
        "linked/files/vllm/hq/link.py: is a symbolic link; put the file itself there",
    ]


def test_two_topics_share_neither_a_file_nor_a_knob(folder: Folder) -> None:
    knob = '[[knobs]]\nname = "VLLM_HQ_X"\ndefault = "1"\nvalues = ["1"]\nwhat = "X."\n'
    for name in ("one", "two"):
        folder.topic(name)
        folder.write(f"{name}/topic.toml", TOPIC.format(name=name) + knob)
        folder.write(f"{name}/files/vllm/hq/same.py", "")
    assert folder.mistakes() == [
        "two/topic.toml: knobs: VLLM_HQ_X is one's already",
        "two/files/vllm/hq/same.py: one adds that file already",
    ]


def test_a_requirement_must_exist_for_the_pin(folder: Folder) -> None:
    folder.topic("old", patches=("1.0.0",), pins='pins = ["1.0.0"]')
    folder.topic("any", "old")
    assert load_series(folder.root, "1.0.0").ids == ("old", "any")
    assert folder.mistakes("1.1.0") == ["series.toml: any: requires old, which does not exist for 1.1.0"]


def test_an_empty_patch_is_refused(folder: Folder) -> None:
    folder.topic("blank")
    folder.write("blank/1.1.0.patch", "\n")
    assert folder.mistakes() == ["blank/1.1.0.patch: is empty; a topic without hooks has no patch file"]


def test_an_unknown_pin_is_refused(folder: Folder) -> None:
    with pytest.raises(UsageError, match=r"unknown pin '2\.0'"):
        load_series(folder.root, "2.0")


def test_a_folder_that_holds_no_series(tmp_path: Path) -> None:
    for load in (load_pins, load_order):
        with pytest.raises(UsageError, match="--patchsets"):
            load(tmp_path)
        with pytest.raises(UsageError, match="--patchsets"):
            load(tmp_path / "absent")


def test_order_and_pins_of_the_folder(folder: Folder) -> None:
    folder.topic("one")
    assert [entry.id for entry in load_order(folder.root).topics] == ["one"]
    assert load_pins(folder.root).default == "1.1.0"
