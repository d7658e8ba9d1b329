"""hq::embedding_dequant against torch, in an environment of its own: hqtool's has no torch."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.kernel

CHECKS = Path(__file__).with_name("embedding_dequant_checks.py")


def test_cpu_body(run_in_torch) -> None:
    done = run_in_torch("-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--noconftest", str(CHECKS))
    assert done.returncode == 0, done.stdout + done.stderr
    counted = re.search(r"(\d+) passed", done.stdout)
    assert counted and int(counted.group(1)) > 50, done.stdout


def test_library_loads_without_cuda_in_torch(run_in_torch) -> None:
    """The CPU build of torch lacks the symbol that names the current stream; it is weak, so the library loads."""
    code = (
        "import ctypes, os, torch; ctypes.CDLL(os.environ['HQ_CUDART'], mode=ctypes.RTLD_GLOBAL); "
        "torch.ops.load_library(os.environ['HQ_LIBRARY']); print(torch.ops.hq.embedding_dequant.default._schema)"
    )
    done = run_in_torch("-c", code)
    assert done.stdout.strip() == (
        "hq::embedding_dequant(Tensor ids, Tensor weight_packed, Tensor weight_scale, int num_bits) -> Tensor"
    ), done.stderr
