"""The start-up line: when it is logged, what it says, and what it finds amiss."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm.hq import guard, ops
from vllm.platforms import current_platform

from toolkit.model.ids import blob_id

LIBRARY = {"path": "vllm/hq/_hq_C.abi3.so", "sha256": "0" * 64, "architectures": ["sm_86", "compute_86"]}


class Lines(logging.Handler):
    """The records of one logger."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[logging.LogRecord]]:
    """What the guard logs, in a process where it was neither armed nor heard yet."""
    monkeypatch.setattr(guard, "_armed", False)
    monkeypatch.setattr(guard, "_spoken", False)
    handler = Lines()
    guard.logger.addHandler(handler)
    monkeypatch.setattr(guard.logger, "level", logging.INFO)
    yield handler.records
    guard.logger.removeHandler(handler)


@pytest.fixture
def fitting(build: Callable[..., Any]) -> Callable[..., Any]:
    """A function that installs a build with which nothing is amiss here."""

    def install(**changes: Any) -> Any:
        import importlib.metadata

        here = {"torch": torch.__version__.partition("+")[0], "triton": importlib.metadata.version("triton")}
        return build(**(here | changes))

    return install


def engine(rank: int = 0) -> Any:
    """What the guard looks at in an engine's configuration."""
    return SimpleNamespace(parallel_config=SimpleNamespace(data_parallel_index=rank))


def test_one_line_a_process(fitting: Callable[..., Any], lines: list[logging.LogRecord]) -> None:
    fitting()
    guard.register()
    guard.register()
    guard.announce(engine())
    guard.announce(engine())
    assert [record.levelno for record in lines] == [logging.INFO]
    text = lines[0].getMessage()
    assert text.startswith("hq 0.33.0+hq7.sm86: topics on: runtime, quick-path (without its operators: ")
    assert text.endswith("; off: shy (VLLM_HQ_SHY=0)")


@pytest.mark.parametrize(("armed", "rank"), [(False, 0), (True, 1), (True, 5)])
def test_no_line_unless_armed_and_first(
    fitting: Callable[..., Any], lines: list[logging.LogRecord], armed: bool, rank: int
) -> None:
    fitting()
    if armed:
        guard.register()
    guard.announce(engine(rank))
    assert lines == []


def test_a_wrong_switch_stops_the_engine_though_nothing_is_armed(
    fitting: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fitting()
    monkeypatch.setenv("VLLM_HQ_SHYY", "1")
    with pytest.raises(ValueError, match="VLLM_HQ_SHY"):
        guard.announce(engine())


def test_the_master_switch(
    fitting: Callable[..., Any], lines: list[logging.LogRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    fitting()
    monkeypatch.setenv("VLLM_HQ", "0")
    guard.register()
    guard.announce(engine())
    assert (
        lines[0]
        .getMessage()
        .endswith("topics on: none; off: runtime (VLLM_HQ=0), quick-path (VLLM_HQ=0), shy (VLLM_HQ=0)")
    )


def test_a_tree_without_a_manifest(lines: list[logging.LogRecord], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard.manifest, "read", lambda: None)
    guard.register()
    guard.announce(engine())
    assert [record.levelno for record in lines] == [logging.WARNING]


def test_problems_are_on_the_same_line(fitting: Callable[..., Any], lines: list[logging.LogRecord]) -> None:
    missing = {"topics": ["runtime"], "files": {"vllm/no/such.py": [None, blob_id(b"")]}}
    fitting(torch="1.0.0", chain=missing)
    guard.register()
    guard.announce(engine())
    assert [record.levelno for record in lines] == [logging.WARNING]
    assert "this build needs 1.0.0; vllm/no/such.py is missing" in lines[0].getMessage()


@pytest.mark.parametrize(
    ("torch_needed", "triton_needed", "named"),
    [
        (torch.__version__.partition("+")[0], None, []),
        ("2.0.0", None, ["torch"]),
        ("2.0.0", "1.0.0", ["torch", "Triton"]),
    ],
)
def test_versions(fitting: Callable[..., Any], torch_needed: str, triton_needed: str | None, named: list[str]) -> None:
    found = fitting(torch=torch_needed, **({"triton": triton_needed} if triton_needed else {}))
    assert [problem.split()[0] for problem in guard.check_versions(found)] == named


def test_another_patch_release_of_triton_is_fine(fitting: Callable[..., Any]) -> None:
    import importlib.metadata

    major, minor, _ = importlib.metadata.version("triton").split(".", 2)
    assert not list(guard.check_versions(fitting(triton=f"{major}.{minor}.99")))


def test_files(build: Callable[..., Any], tmp_path: Path) -> None:
    contents = {"vllm/same.py": b"same", "vllm/edited.py": b"other", "vllm/removed.py": b"x", "vllm/crlf.py": b"a\r\n"}
    for path, data in contents.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(data)
    ids = {
        "vllm/same.py": [blob_id(b"before"), blob_id(b"same")],
        "vllm/crlf.py": [blob_id(b"a\n"), blob_id(b"a\r\n")],
        "vllm/edited.py": [blob_id(b"before"), blob_id(b"edited")],
        "vllm/gone.py": [None, blob_id(b"new")],
        "vllm/removed.py": [blob_id(b"x"), None],
        "vllm/never.py": [blob_id(b"x"), None],
    }
    found = build(chain={"topics": ["runtime"], "files": ids})
    assert list(guard.check_files(found, tmp_path)) == [
        "vllm/edited.py was edited",
        "vllm/gone.py is missing",
        "vllm/removed.py is back",
    ]


def test_the_library_is_the_one_that_was_built(
    build: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "_hq_C.abi3.so"
    library.write_bytes(b"library")
    monkeypatch.setattr(ops, "LIBRARY", library)
    right = hashlib.sha256(b"library").hexdigest()
    assert not list(guard.check_files(build(kernels=LIBRARY | {"sha256": right}), tmp_path))
    assert "_hq_C.abi3.so" in next(iter(guard.check_files(build(kernels=LIBRARY), tmp_path)))


@pytest.mark.parametrize(
    ("architectures", "card", "runs"),
    [
        (["sm_86"], (8, 6), True),
        (["sm_86"], (8, 9), True),
        (["sm_86"], (8, 0), False),
        (["sm_86"], (9, 0), False),
        (["sm_86", "compute_86"], (9, 0), True),
        (["sm_86", "compute_86"], (12, 0), True),
        (["sm_86", "compute_86"], (7, 5), False),
        (["sm_120"], (12, 0), True),
        (["sm_90a"], (9, 0), False),
        ([], (8, 6), False),
    ],
)
def test_what_runs_on_a_card(architectures: list[str], card: tuple[int, int], runs: bool) -> None:
    assert guard.runs_on(architectures, *card) is runs


def test_a_card_for_which_nothing_was_built(build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    found = build(kernels=LIBRARY)
    assert list(guard.check_device(found)) == [], "there is no card here"
    card = SimpleNamespace(major=7, minor=5)
    monkeypatch.setattr(type(current_platform), "get_device_capability", classmethod(lambda cls: card))
    assert "sm_75" in next(iter(guard.check_device(found)))
    assert list(guard.check_device(build())) == []
