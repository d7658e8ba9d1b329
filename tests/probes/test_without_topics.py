"""Every probe fails on the official release: it proves nothing if it passes without its topic."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import vllm_tree
from tests.probes.conftest import PROBES
from toolkit.jobs.series import load_pins, load_series

pytestmark = pytest.mark.kernel

HERE = Path(__file__).parent
PATCHSETS = vllm_tree.ROOT / "patchsets"
PINS = [pin.version for pin in load_pins(PATCHSETS).pins]


@pytest.mark.parametrize("pin", PINS)
def test_every_probe_fails(pin: str, tmp_path: Path) -> None:
    tree = vllm_tree.unpack(vllm_tree.official_wheel(pin), tmp_path)
    done = vllm_tree.pytest_inside(tree, *(str(HERE / name) for name in PROBES))
    lines = [line for line in done.stdout.splitlines() if line.startswith(("PASSED", "FAILED", "ERROR"))]
    assert len(lines) >= len(PROBES), done.stdout + done.stderr
    assert all(line.startswith("FAILED") for line in lines), done.stdout


@pytest.mark.parametrize("pin", PINS)
def test_every_topic_has_a_probe_here(pin: str) -> None:
    probes = [source.topic.probe for source in load_series(PATCHSETS, pin).topics]
    assert sorted(probes) == [f"tests/probes/{name}" for name in PROBES]
