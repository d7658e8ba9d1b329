"""What people and scripts are told about a tree."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toolkit.engine.examination import SHOWN, Compared, Examination, TargetKind, report
from toolkit.engine.reference import Basis, Difference, Extra
from toolkit.engine.standing import locate
from toolkit.model.chain import Chain, FileChain
from toolkit.model.finding import Severity
from toolkit.model.ids import BlobId, TopicId

ONE, TWO, THREE, FOUR = (BlobId(digit * 40) for digit in "1234")
CHAIN = Chain(
    (TopicId("base"), TopicId("second")),
    (FileChain("vllm/a.py", (ONE, TWO, THREE)), FileChain("vllm/hq/new.py", (None, None, FOUR))),
)


def examined(a: BlobId | None, new: BlobId | None, kind: TargetKind = TargetKind.SOURCE) -> Examination:
    """Return the examination of a tree with these two files."""
    return Examination(
        target="tree",
        kind=kind,
        version="1.0",
        pin="1.0",
        revision=3,
        chain=CHAIN,
        standing=locate(CHAIN, {"vllm/a.py": a, "vllm/hq/new.py": new}),
        manifest=None,
        differences=(),
        extras=(),
        findings=(),
        compared=Compared(2, 5, 7),
        full=False,
    )


@pytest.mark.parametrize(
    ("a", "new", "headline", "state", "code"),
    [
        (ONE, None, "pristine vLLM 1.0", "pristine", 0),
        (TWO, None, "vLLM 1.0, patched up to topic 1 (base) of 2", "partial", 0),
        (THREE, FOUR, "fully patched vLLM 1.0: 2 topics of revision 3", "patched", 0),
        (
            FOUR,
            FOUR,
            "modified vLLM 1.0: one file is not as expected (otherwise fully patched)",
            "modified",
            1,
        ),
        (
            TWO,
            ONE,
            "modified vLLM 1.0: one file is not as expected (otherwise patched up to topic 1 (base) of 2)",
            "modified",
            1,
        ),
        (ONE, ONE, "modified vLLM 1.0: one file is not as expected (otherwise pristine)", "modified", 1),
    ],
)
def test_headlines(a: BlobId | None, new: BlobId | None, headline: str, state: str, code: int) -> None:
    said = report(examined(a, new))
    assert (said.headline, said.data["state"], said.exit_code) == (headline, state, code)


def test_a_series_without_topics_leaves_trees_pristine() -> None:
    nothing = Chain((), ())
    assert (
        report(replace(examined(ONE, None), chain=nothing, standing=locate(nothing, {}))).headline
        == "pristine vLLM 1.0"
    )


@pytest.mark.parametrize(
    ("a", "new", "message"),
    [
        (FOUR, FOUR, "topic second: was edited; expected blob 333333333333, found blob 444444444444"),
        (None, FOUR, "topic second: is missing; expected blob 333333333333"),
        (ONE, FOUR, "topic second: is as upstream has it; expected blob 333333333333, found blob 111111111111"),
        (TWO, FOUR, "topic second: is as topic base left it; expected blob 333333333333, found blob 222222222222"),
    ],
)
def test_files_of_topics(a: BlobId | None, new: BlobId | None, message: str) -> None:
    said = report(examined(a, new))
    assert [(item.subject, item.message) for item in said.findings] == [("vllm/a.py", message)]
    assert said.data["modified"] == [{"path": "vllm/a.py", "topic": "second", "expected": THREE, "found": a}]


def test_a_file_that_should_not_be_there() -> None:
    said = report(examined(ONE, ONE))
    assert said.findings[0].message == "topic second: was edited; expected no file, found blob 111111111111"


def test_other_files() -> None:
    found = replace(
        examined(ONE, None, TargetKind.INSTALLATION),
        differences=(
            Difference("vllm/b.py", "sha256 aa", "sha256 bb", Basis.RECORD),
            Difference("vllm/c.py", "a file", "", Basis.INDEX),
        ),
    )
    said = report(found)
    assert [(item.subject, item.message) for item in said.findings] == [
        ("vllm/b.py", "no topic changes it: was edited; expected sha256 aa, found sha256 bb (by RECORD)"),
        ("vllm/c.py", "no topic changes it: is missing (by the release's source)"),
    ]
    assert "pip install" in said.findings[0].fix
    assert said.data["modified"][1] == {"path": "vllm/c.py", "topic": None, "expected": "a file", "found": None}
    assert (said.data["state"], said.data["level"]) == ("modified", 0)


def test_extra_files_are_notes_unless_they_hide_a_module() -> None:
    harmless = replace(examined(ONE, None), extras=(Extra("vllm/mine.py"),))
    said = report(harmless)
    assert (said.headline, said.exit_code, said.findings[0].severity) == ("pristine vLLM 1.0", 0, Severity.NOTE)
    hiding = replace(harmless, extras=(Extra("vllm/a/__init__.py", "vllm/a.py"),))
    said = report(hiding)
    assert said.headline.startswith("modified vLLM 1.0: one file is")
    assert said.findings[0].message == "is imported instead of vllm/a.py"
    assert said.exit_code == 1


def test_long_lists_are_cut_for_people_only() -> None:
    many = tuple(Difference(f"vllm/{number}.py", "a file", "", Basis.RECORD) for number in range(SHOWN + 5))
    said = report(replace(examined(ONE, None), differences=many))
    assert len(said.findings) == SHOWN + 1
    assert said.findings[-1].message == "5 further files; --json lists all of them"
    assert len(said.data["modified"]) == SHOWN + 5


def test_scripts_see_which_topics_are_in() -> None:
    data = report(examined(TWO, None)).data
    assert data["topics"] == [{"id": "base", "applied": True}, {"id": "second", "applied": False}]
    assert data["compared"] == {"chain": 2, "hashed": 5, "sized": 7}
    assert (data["kind"], data["depth"], data["revision"]) == ("source tree", "default", 3)
