"""The loading of the operators: what is there, what is not, and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from vllm.hq import ops


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    ops.reason.cache_clear()
    yield
    ops.reason.cache_clear()


def test_the_built_library_is_loaded() -> None:
    assert ops.reason() == ""
    assert ops.loaded()
    assert ops.available("embedding_dequant")
    assert ops.why_missing("embedding_dequant") == ""


def test_an_operator_that_the_library_lacks() -> None:
    assert not ops.available("no_such_operator")
    assert "no operator hq::no_such_operator" in ops.why_missing("no_such_operator")


def test_no_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ops, "LIBRARY", tmp_path / "_hq_C.abi3.so")
    assert not ops.loaded()
    assert not ops.available("embedding_dequant"), "an operator of a library that is not ours must not count"
    assert ops.why_missing("embedding_dequant") == "_hq_C.abi3.so is not in this installation"


def test_a_library_that_does_not_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "_hq_C.abi3.so"
    broken.write_bytes(b"\x7fELF is not enough")
    monkeypatch.setattr(ops, "LIBRARY", broken)
    assert not ops.loaded()
    assert ops.reason().startswith("_hq_C.abi3.so does not load: ")


def test_a_fake_is_registered_once() -> None:
    def fake(value: torch.Tensor) -> torch.Tensor:
        return value.new_empty(3)

    library = torch.library.Library("hq", "FRAGMENT")
    library.define("fake_me(Tensor value) -> Tensor")
    ops.set_fake("fake_me", fake)
    ops.set_fake("fake_me", fake)
    with torch._subclasses.FakeTensorMode():
        assert torch.ops.hq.fake_me(torch.empty(1)).shape == (3,)
