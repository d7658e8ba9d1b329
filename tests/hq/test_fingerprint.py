"""The compile key: what changes it, what does not, and that vLLM's own hash holds it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from vllm.config import VllmConfig
from vllm.hq import fingerprint, ops


def test_it_follows_the_manifest(build: Callable[..., Any]) -> None:
    build()
    before = fingerprint.compile_key()
    assert fingerprint.compile_key() == before
    build(tool="another")
    assert fingerprint.compile_key() != before


def test_it_follows_every_switch_but_not_its_spelling(
    build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    build()
    before = fingerprint.compile_key()
    monkeypatch.setenv("VLLM_HQ_SHY", "off")
    assert fingerprint.compile_key() == before
    monkeypatch.setenv("VLLM_HQ_SHY", "on")
    assert fingerprint.compile_key() != before


def test_it_follows_the_library(build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    build()
    before = fingerprint.compile_key()
    monkeypatch.setattr(ops, "LIBRARY", tmp_path / "none.so")
    ops.reason.cache_clear()
    assert fingerprint.compile_key() != before
    ops.reason.cache_clear()


def test_vllm_hashes_it(build: Callable[..., Any]) -> None:
    config = VllmConfig()
    build()
    before = config.compute_hash()
    assert config.compute_hash() == before
    versionless = config.compute_hash(include_version=False)
    build(tool="another")
    assert config.compute_hash() != before
    assert config.compute_hash(include_version=False) == versionless


def test_the_master_switch_restores_upstreams_hash(build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    config = VllmConfig()
    build()
    monkeypatch.setenv("VLLM_HQ", "0")
    assert fingerprint.compile_factors() == ()
    off = config.compute_hash()
    build(tool="another")
    assert config.compute_hash() == off
    # What upstream computes: the hook's module gives nothing, as if the hook were not there.
    monkeypatch.setenv("VLLM_HQ", "1")
    monkeypatch.setattr(fingerprint, "compile_factors", lambda: ())
    assert config.compute_hash() == off
