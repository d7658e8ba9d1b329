"""The figures that topic manifests and the README state without a GPU hold when they are computed again."""

from __future__ import annotations

import math
import random

import pytest

ROWS, COLUMNS, GROUP = 248_320, 5_120, 128
"""The token table of Qwen3.8-27B and the group of a packed one."""


@pytest.mark.parametrize(("bits", "stated"), [(8, "0.65"), (4, "11")])
def test_the_error_of_packing_normal_weights(bits: int, stated: str) -> None:
    draw = random.Random(0)
    error = power = 0.0
    for _ in range(2_000):
        group = [draw.gauss(0, 1) for _ in range(GROUP)]
        scale = max(map(abs, group)) / (2 ** (bits - 1) - 0.5)
        for value in group:
            packed = min(max(round(value / scale), -(2 ** (bits - 1))), 2 ** (bits - 1) - 1)
            error += (value - packed * scale) ** 2
            power += value**2
    percent = 100 * math.sqrt(error / power)
    assert f"{percent:.{len(stated.partition('.')[2])}f}" == stated


@pytest.mark.parametrize(("bits", "gigabytes"), [(8, "1.29"), (4, "0.66")])
def test_the_size_of_a_packed_table(bits: int, gigabytes: str) -> None:
    codes, scales = ROWS * COLUMNS * bits // 8, ROWS * COLUMNS // GROUP * 2
    assert f"{(codes + scales) / 1e9:.2f}" == gigabytes
    assert f"{ROWS * COLUMNS * 2 / 1e9:.2f}" == "2.54"
