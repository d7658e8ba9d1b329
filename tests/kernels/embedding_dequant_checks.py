"""Checks of hq::embedding_dequant's CPU body, collected by the torch environment's pytest (test_embedding_dequant.py).

The reference is written from the description of the pack-quantized format; the packing comes from compressed-tensors,
whose format it is.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import itertools
import os
import random
import runpy

import pytest
import torch

# The packing function by its file: importing its package takes half a minute and wants what pip did not install.
_packing = importlib.metadata.distribution("compressed-tensors").locate_file(
    "compressed_tensors/compressors/pack_quantized/helpers.py"
)
pack_to_int32 = runpy.run_path(str(_packing))["pack_to_int32"]

ctypes.CDLL(os.environ["HQ_CUDART"], mode=ctypes.RTLD_GLOBAL)  # the library needs it to load, GPU or not
torch.ops.load_library(os.environ["HQ_LIBRARY"])
op = torch.ops.hq.embedding_dequant

ROWS = 37
CASES = [
    (bits, dtype, hidden, group)
    for bits, dtype, hidden in itertools.product((4, 8), (torch.bfloat16, torch.float16), (128, 1024, 5120))
    for group in {128, hidden}
]


def table(bits: int, dtype: torch.dtype, hidden: int, group: int, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """Return signed codes [ROWS, hidden], the same packed, and scales [ROWS, hidden / group]."""
    generator = torch.Generator().manual_seed(seed)
    low, high = -(1 << (bits - 1)), 1 << (bits - 1)
    codes = torch.randint(low, high, (ROWS, hidden), generator=generator, dtype=torch.int8)
    scales = torch.randn(ROWS, hidden // group, generator=generator).mul(0.05).to(dtype)
    return codes, pack_to_int32(codes, bits).contiguous(), scales


def dequantized(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Return code times scale in float32, rounded once to the scale's type."""
    spread = scales.float().repeat_interleave(codes.shape[1] // scales.shape[1], dim=1)
    return (codes.float() * spread).to(scales.dtype)


def assert_same_bits(found: torch.Tensor, expected: torch.Tensor) -> None:
    assert found.dtype == expected.dtype and found.shape == expected.shape
    nan = expected.isnan()  # a NaN has many spellings, and torch's conversions do not agree on one
    assert torch.equal(found.isnan(), nan)
    same = found.view(torch.int16) == expected.view(torch.int16)
    assert bool((same | nan).all())


@pytest.mark.parametrize(("bits", "dtype", "hidden", "group"), CASES)
def test_rows_equal_the_reference_bit_for_bit(bits: int, dtype: torch.dtype, hidden: int, group: int) -> None:
    codes, packed, scales = table(bits, dtype, hidden, group)
    ids = torch.randint(0, ROWS, (101,), generator=torch.Generator().manual_seed(1))
    ids[0], ids[1], ids[2] = 0, ROWS - 1, ROWS - 1
    assert_same_bits(op(ids, packed, scales, bits), dequantized(codes, scales)[ids])


@pytest.mark.parametrize("bits", [4, 8])
def test_every_code_is_read_from_its_place(bits: int) -> None:
    """Packed by hand, so that a mistake shared with the packing function would show."""
    count = 1 << bits
    hidden = max(count, 8)
    words = [0] * (hidden * bits // 32)
    for place in range(hidden):
        words[place * bits // 32] |= (place % count) << (place * bits % 32)
    packed = torch.tensor([[word - (1 << 32) if word >> 31 else word for word in words]], dtype=torch.int32)
    row = op(torch.tensor([0]), packed, torch.ones(1, 1, dtype=torch.bfloat16), bits)[0]
    assert row.tolist() == [float(place % count - count // 2) for place in range(hidden)]


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_special_scales(bits: int, dtype: torch.dtype) -> None:
    facts = torch.finfo(dtype)
    special = [0.0, -0.0, -1.5, facts.max, facts.min, facts.tiny, facts.smallest_normal, float("inf"), float("nan")]
    scales = torch.tensor(special, dtype=dtype)
    smallest = torch.tensor([1, 3, -32767], dtype=torch.int16).view(dtype)  # the smallest subnormals by their bits
    scales = torch.cat([scales, smallest]).reshape(-1, 1)
    generator = torch.Generator().manual_seed(2)
    codes = torch.randint(-(1 << bits - 1), 1 << bits - 1, (len(scales), 128), generator=generator, dtype=torch.int8)
    ids = torch.arange(len(scales))
    found = op(ids, pack_to_int32(codes, bits).contiguous(), scales, bits)
    assert_same_bits(found, dequantized(codes, scales))
    assert bool((found[-3:] != 0).any())  # nothing flushed subnormals to zero


@pytest.mark.parametrize(("hidden", "group"), [(8, 8), (24, 8), (72, 24), (1048, 8), (2176, 136)])
def test_any_multiple_of_eight(hidden: int, group: int) -> None:
    for bits in (4, 8):
        codes, packed, scales = table(bits, torch.bfloat16, hidden, group, seed=hidden)
        ids = torch.arange(ROWS).flip(0)
        assert_same_bits(op(ids, packed, scales, bits), dequantized(codes, scales)[ids])


def test_no_ids_give_no_rows() -> None:
    _, packed, scales = table(8, torch.float16, 128, 128)
    out = op(torch.empty(0, dtype=torch.int64), packed, scales, 8)
    assert out.shape == (0, 128) and out.dtype == torch.float16


@pytest.mark.parametrize("wrong", [-1, ROWS, 1 << 40, -(1 << 62)])
def test_an_id_outside_the_table_raises_and_is_named(wrong: int) -> None:
    _, packed, scales = table(8, torch.bfloat16, 128, 128)
    with pytest.raises(RuntimeError, match=rf"id {wrong} at position 1 is outside the table of {ROWS} rows"):
        op(torch.tensor([0, wrong]), packed, scales, 8)


def bad_arguments() -> dict[str, tuple[tuple[object, ...], str]]:
    """Return name -> (arguments, what the message says)."""
    _, packed, scales = table(8, torch.bfloat16, 256, 128)
    ids = torch.tensor([1, 2])
    words = packed.shape[1]
    shifted = torch.empty(ROWS * words + 1, dtype=torch.int32)[1:].view(ROWS, words)
    return {
        "bits": ((ids, packed, scales, 5), "num_bits must be 4 or 8, not 5"),
        "ids of int32": ((ids.int(), packed, scales, 8), "ids must be .*, not Int"),
        "ids of two dimensions": ((ids[None], packed, scales, 8), r"not Long \[1, 2\]"),
        "ids not contiguous": ((torch.arange(8)[::2], packed, scales, 8), r"Long \[4\], not contiguous"),
        "packed of int64": ((ids, packed.long(), scales, 8), "weight_packed must be .*, not Long"),
        "packed transposed": ((ids, packed.t().contiguous().t(), scales, 8), "weight_packed .* not contiguous"),
        "scales of float32": ((ids, packed, scales.float(), 8), "weight_scale must be .*, not Float"),
        "scales of one dimension": ((ids, packed, scales[:, 0].contiguous(), 8), "weight_scale must be"),
        "other row count": ((ids, packed, scales[:5], 8), "37 rows and weight_scale 5"),
        "groups that do not divide": ((ids, packed, scales.repeat(1, 2)[:, :3].contiguous(), 8), "into 3 groups"),
        "groups of four": ((ids, packed, scales.repeat(1, 32).contiguous(), 8), "into 64 groups"),
        "no groups": ((ids, packed, scales[:, :0].contiguous(), 8), "into 0 groups"),
        "hidden not a multiple of eight": ((ids, packed[:, :1].contiguous(), scales, 8), "multiple of 8 .* not 4"),
        "packed at an odd address": ((ids, shifted, scales, 8), "must start at a multiple of 8 bytes"),
    }


@pytest.mark.parametrize("name", bad_arguments())
def test_bad_arguments_raise_clearly(name: str) -> None:
    arguments, message = bad_arguments()[name]
    with pytest.raises(RuntimeError, match=message):
        op(*arguments)


def test_a_random_table_against_one_value_at_a_time() -> None:
    """In Python's own numbers: a code times a bf16 scale is exact in double precision, so it is rounded once."""
    chance = random.Random(3)
    codes = [[chance.randrange(-8, 8) for _ in range(16)] for _ in range(3)]
    scales = torch.tensor([[chance.uniform(-1, 1), chance.uniform(-1, 1)] for _ in range(3)], dtype=torch.bfloat16)
    packed = pack_to_int32(torch.tensor(codes, dtype=torch.int8), 4).contiguous()
    exact = [[code * scales[row, place // 8].item() for place, code in enumerate(codes[row])] for row in range(3)]
    expected = torch.tensor(exact, dtype=torch.float64).to(torch.bfloat16)
    assert_same_bits(op(torch.arange(3), packed, scales, 4), expected)


def test_torch_accepts_the_operator() -> None:
    """Schema, fake and compilation, with a fake of this test's own."""

    @torch.library.register_fake("hq::embedding_dequant")
    def fake(ids, packed, scales, num_bits):
        return scales.new_empty(ids.numel(), packed.shape[1] * 32 // num_bits)

    _, packed, scales = table(8, torch.bfloat16, 256, 128)
    result = torch.library.opcheck(op.default, (torch.tensor([1, 2, 3]), packed, scales, 8))
    assert set(result.values()) == {"SUCCESS"}
