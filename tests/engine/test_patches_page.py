"""PATCHES.md: everything a manifest says is on the page, and the same series gives the same page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toolkit.engine.patches_page import Touched, render_page, touched
from toolkit.model.errors import UsageError
from toolkit.model.ids import Sha256, TopicId
from toolkit.model.patch import Change
from toolkit.model.pin import Artifact, Pin, Pins
from toolkit.model.topic import (
    Kind,
    Knob,
    Numbers,
    RetireCondition,
    RetireRule,
    Series,
    SeriesEntry,
    SeriesOrder,
    Topic,
    TopicSource,
    Upstream,
    UpstreamState,
)

PATCH = b"""\
diff --git a/vllm/a.py b/vllm/a.py
index 1111111111111111111111111111111111111111..2222222222222222222222222222222222222222 100644
--- a/vllm/a.py
+++ b/vllm/a.py
@@ -1,3 +1,4 @@
 one
-two
+deux
+deux et demi
 three
@@ -9,1 +10,2 @@
 nine
+nine and a half
diff --git a/vllm/gone.py b/vllm/gone.py
deleted file mode 100644
index 3333333333333333333333333333333333333333..0000000000000000000000000000000000000000
--- a/vllm/gone.py
+++ /dev/null
@@ -1,2 +0,0 @@
-x
-y
"""

TOPIC = Topic(
    id=TopicId("wide"),
    title="Wide verification",
    kind=Kind.SPEED,
    what="First\nline.",
    why="Because | of pipes.",
    upstream=Upstream(UpstreamState.SUBMITTED, "waits", ("vllm-project/vllm#7",)),
    numbers=Numbers(lossless=False, error="0.1 % by a command"),
    probe="tests/probes/test_wide.py",
    retires_when=(
        RetireCondition(RetireRule.SYMBOL_EXISTS, "vllm.a.b"),
        RetireCondition(RetireRule.NEVER, reason="ours"),
    ),
    knobs=(Knob("VLLM_HQ_WIDE", "1", ("0", "1"), "0 is narrow | off."),),
)


def artifact(name: str) -> Artifact:
    """Return an artifact that nobody reads."""
    return Artifact(name, Sha256("0" * 64), 1)


PINS = Pins(
    "vllm",
    "https://example.org",
    "1.1.0",
    tuple(
        Pin(version, f"v{version}", "012345678", "2026-01-01", "2.0", "3.0", artifact("a.tar.gz"), artifact("a.whl"))
        for version in ("1.1.0", "1.0.0")
    ),
)
ORDER = SeriesOrder(7, (SeriesEntry(TopicId("base")), SeriesEntry(TopicId("wide"), (TopicId("base"),), ("1.1.0",))))
BASE = TopicSource(
    replace(TOPIC, id=TopicId("base"), numbers=Numbers(lossless=True), knobs=()), b"", {"vllm/hq/b.py": b""}
)
WIDE = TopicSource(TOPIC, PATCH, {"vllm/hq/z.py": b"", "vllm/hq/y.py": b""}, {"op.cu": b""})
SERIES = {"1.1.0": Series("1.1.0", 7, (BASE, WIDE)), "1.0.0": Series("1.0.0", 7, (BASE,))}


def test_lines_are_counted_by_file() -> None:
    assert touched(PATCH) == (
        Touched("vllm/a.py", Change.MODIFY, 3, 1),
        Touched("vllm/gone.py", Change.DELETE, 0, 2),
    )
    assert touched(b"") == ()


def test_a_broken_patch_is_refused() -> None:
    with pytest.raises(UsageError, match=r"vllm/a\.py, hunk 1"):
        touched(PATCH.replace(b"-1,3 +1,4", b"-1,9 +1,4"))


def test_the_page_says_everything() -> None:
    page = render_page(PINS, ORDER, SERIES)
    head, base, wide = page.split("\n## ")
    assert "Revision 7 of the series (`hq7`), for vLLM 1.1.0 (default), 1.0.0." in head
    assert "| [wide](#wide) | Wide verification | speed | base | 1.1.0 | changed |" in head
    assert "| [base](#base) | Wide verification | speed | nothing | 1.1.0, 1.0.0 | as upstream's |" in head
    assert "New files: `vllm/hq/b.py`" in base
    assert "results: the same as upstream's" in base
    assert "Hooks" not in base
    assert "knob" not in base
    for line in (
        "**Wide verification** (speed)",
        "First line.",
        "Why: Because | of pipes.",
        "- upstream: submitted: vllm-project/vllm#7 (waits)",
        "- retires when: symbol-exists `vllm.a.b`",
        "- retires when: never (ours)",
        "- results: changed. 0.1 % by a command",
        "- probe: `tests/probes/test_wide.py`",
        "- requires: base",
        "| `VLLM_HQ_WIDE` | `1` | `0`, `1` | 0 is narrow \\| off. |",
        "Hooks in vLLM 1.1.0: 3 lines added, 3 removed",
        "| `vllm/a.py` | modify | +3 | -1 |",
        "| `vllm/gone.py` | delete | +0 | -2 |",
        "New files: `vllm/hq/y.py`, `vllm/hq/z.py`, `csrc/op.cu`",
    ):
        assert f"\n{line}\n" in f"{wide}\n"


def test_the_page_ends_with_one_newline_and_has_no_trailing_spaces() -> None:
    page = render_page(PINS, ORDER, SERIES)
    assert page.endswith("`csrc/op.cu`\n")
    assert not [line for line in page.splitlines() if line != line.rstrip()]


def test_a_topic_of_no_pin_is_left_out() -> None:
    page = render_page(PINS, ORDER, {"1.0.0": SERIES["1.0.0"]})
    assert "## wide" not in page


def test_a_series_without_topics_has_a_page() -> None:
    assert "Revision 1" in render_page(PINS, SeriesOrder(1, ()), {"1.1.0": Series("1.1.0", 1, ())})
