"""Probe of the topic runtime: the compile-cache key covers the build and its switches; the engine says what is on."""

from __future__ import annotations

import importlib
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from vllm.config import VllmConfig
from vllm.platforms import current_platform
from vllm.v1.engine.core import EngineCore


class EnoughError(Exception):
    """Ends the construction of an engine where the executor would be made."""


def test_the_hash_of_the_configuration_follows_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = importlib.import_module("vllm.hq.manifest")
    config = VllmConfig()
    hashes = set()
    for raw in (b"one", b"other"):
        monkeypatch.setattr(manifest, "read", lambda raw=raw: SimpleNamespace(raw=raw, knobs={}))
        hashes.add(config.compute_hash())
    monkeypatch.setenv("VLLM_HQ", "0")
    hashes.add(config.compute_hash())
    assert len(hashes) == 3


def test_switches_are_variables_that_vllm_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_HQ", "on")
    current_platform.validate_environ(hard_fail=True)
    monkeypatch.setenv("VLLM_HQ", "sometimes")
    with pytest.raises(ValueError, match="neither on"):
        current_platform.validate_environ(hard_fail=False)


def test_the_engine_core_speaks_once_armed() -> None:
    guard = importlib.import_module("vllm.hq.guard")
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    guard.logger.addHandler(handler)
    guard.logger.setLevel(logging.INFO)

    def stop(_: Any) -> Any:
        raise EnoughError

    guard.register()
    for _ in range(2):
        with pytest.raises(EnoughError):
            EngineCore(VllmConfig(), stop, log_stats=False)
    guard.logger.removeHandler(handler)
    assert len(said) == 1
    assert said[0].startswith("hq")
