"""Probes run inside vLLM: with an interpreter that has torch, and the tree to examine on the path.

`tests/hq/test_with_vllm.py` runs them on built trees, where they must pass, and `test_without_topics.py` on the
official ones, where they must fail. Neither is collected inside.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

INSIDE = importlib.util.find_spec("torch") is not None
PROBES = sorted(path.name for path in Path(__file__).parent.glob("test_*.py") if path.name != "test_without_topics.py")

collect_ignore = ["test_without_topics.py"] if INSIDE else PROBES
