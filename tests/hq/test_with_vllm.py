"""Runs the topics' own tests, and their probes, inside the trees of the built wheels."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import vllm_tree
from toolkit.jobs.series import load_pins

pytestmark = pytest.mark.kernel

PINS = [pin.version for pin in load_pins(vllm_tree.ROOT / "patchsets").pins]


@pytest.mark.parametrize("pin", PINS)
def test_inside_the_built_tree(pin: str, tmp_path: Path) -> None:
    tree = vllm_tree.unpack(vllm_tree.built_wheel(pin), tmp_path)
    done = vllm_tree.pytest_inside(tree, *(str(vllm_tree.ROOT / "tests" / folder) for folder in ("hq", "probes")))
    assert done.returncode == 0, done.stdout + done.stderr
    passed = [line for line in done.stdout.splitlines() if line.startswith("PASSED")]
    names = {line.split("::")[0].rsplit("/", 1)[1] for line in passed}
    assert {"test_guard.py", "test_ops.py", "test_quantized_embeddings.py", "test_runtime.py"} <= names
    assert " skipped" not in done.stdout
