"""Lets the topics' own code be imported, with vLLM around it or without.

In hqtool's own environment there is no vLLM: ``vllm.hq`` then comes from the topics' folders, and only the modules that
need nothing else can be tested. `test_with_vllm.py` runs the others with the CPU environment's Python and a built tree.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
HAS_VLLM = importlib.util.find_spec("torch") is not None

if HAS_VLLM:
    collect_ignore = ["test_compile_cache.py", "test_with_vllm.py"]
else:
    collect_ignore = ["test_fingerprint.py", "test_guard.py", "test_ops.py", "test_quantized_embeddings.py"]
    package = ModuleType("vllm")
    package.__path__ = [str(ROOT / "patchsets" / "runtime" / "files" / "vllm")]
    sys.modules["vllm"] = package

BUILT: dict[str, Any] = {
    "schema": 1,
    "version": "0.33.0+hq7.sm86",
    "torch": "2.14.0",
    "triton": "3.8.0",
    "topics": [
        {"id": "runtime", "knobs": {"VLLM_HQ": "1"}, "ops": []},
        {"id": "quick-path", "knobs": {"VLLM_HQ_QUICK_PATH": "1"}, "ops": ["hq::quick"]},
        {"id": "shy", "knobs": {"VLLM_HQ_SHY": "0"}, "ops": []},
    ],
    "chain": {"topics": ["runtime", "quick-path", "shy"], "files": {}},
    "kernels": None,
}
"""A build of three topics: one without a switch of its own, one with an operator, one that is off by default."""


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    """A function that makes ``vllm.hq`` see a build: `BUILT` with the keys that it is given."""
    from vllm.hq import manifest

    read = manifest.read

    def install(**changes: Any) -> Any:
        path = tmp_path / "manifest.json"
        path.write_text(json.dumps(BUILT | changes), encoding="utf-8")
        read.cache_clear()
        found = read(path)
        monkeypatch.setattr(manifest, "read", lambda: found)
        return found

    return install


@pytest.fixture(autouse=True)
def _no_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset the switches that this machine's user may have set."""
    import os

    for name in [name for name in os.environ if name.startswith("VLLM_HQ")]:
        monkeypatch.delenv(name)
