"""hq::embedding_dequant on a GPU: is it right, and how near is it to what the memory can do.

    python tests/lab/embedding_dequant.py PATH/_hq_C.abi3.so

Needs a CUDA torch and a GPU; upstream's Triton lookup is compared when vLLM is installed. Prints one JSON line; exits 1
when a result is wrong.

Bytes counted per row of hidden 5,120 with groups of 128, each read or written once: int8 5,120 + 80 + 10,240, int4
2,560 + 80 + 10,240. The table has 248,320 rows, so that lookups miss the caches, and the ids change from call to call.
A copy is counted as bytes read plus bytes written. Kernel times are replays of a CUDA graph of many calls.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

HIDDEN, GROUP, VOCABULARY = 5120, 128, 248_320
MANY_ROWS = (16_384, 2_048)
FEW_ROWS = (1, 2, 4, 8, 16)
HIDDENS, COUNTS = (8, 128, 1000, 1024, 5120, 7168), (1, 64, 65, 777)
"""What is checked: on both sides of every choice that the kernel makes."""
ID_SETS = 8
"""Sets of ids that calls rotate through, and results that they keep: fewer would stay in the cache."""
DEVICE = "cuda"

Lookup = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, int], torch.Tensor]


def own(ids: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor, bits: int) -> torch.Tensor:
    """The operator under test."""
    return torch.ops.hq.embedding_dequant(ids, packed, scales, bits)


def plain(ids: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor, bits: int) -> torch.Tensor:
    """The lookup in torch's own operators: gather rows, shift codes out, scale in float32, round once."""
    words = packed[ids]
    shifts = torch.arange(0, 32, bits, device=words.device, dtype=torch.int32)
    codes = ((words[:, :, None] >> shifts) & ((1 << bits) - 1)) - (1 << (bits - 1))
    rows = scales[ids].float()[:, :, None]
    values = codes.reshape(len(ids), rows.shape[1], -1).float() * rows
    return values.reshape(len(ids), -1).to(scales.dtype)


def upstream() -> Lookup | None:
    """Return the Triton lookup of the installed vLLM, if there is one."""
    try:
        from vllm.model_executor.layers.quantization.compressed_tensors import compressed_tensors_embedding as module
    except ImportError:
        return None
    gather = module._dequant_gather_triton
    return lambda ids, packed, scales, bits: gather(ids, packed, scales, packed.shape[1] * 32 // bits, bits)


def random_table(
    rows: int, bits: int, dtype: torch.dtype, hidden: int = HIDDEN, group: int = GROUP
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return packed codes [rows, hidden * bits / 32] and scales [rows, hidden / group], random in every bit."""
    packed = torch.randint(-(1 << 31), 1 << 31, (rows, hidden * bits // 32), device=DEVICE, dtype=torch.int32)
    scales = torch.randn(rows, hidden // group, device=DEVICE).mul_(0.02).to(dtype)
    return packed, scales


def random_ids(count: int, rows: int) -> torch.Tensor:
    return torch.randint(0, rows, (count,), device=DEVICE)


def same_bits(found: torch.Tensor, expected: torch.Tensor) -> bool:
    return found.dtype == expected.dtype and torch.equal(found.view(torch.int16), expected.view(torch.int16))


def poison(shape: tuple[int, int], dtype: torch.dtype) -> None:
    """Leave memory full of NaN where the allocator will put the next result of this size."""
    full = torch.full(shape, float("nan"), device=DEVICE, dtype=dtype)
    torch.cuda.synchronize()
    del full


def check_cases() -> list[str]:
    """Compare with torch for every kind of table and for counts around the kernel's switch; return what differs."""
    wrong = []
    kinds = itertools.product((4, 8), (torch.bfloat16, torch.float16), HIDDENS, COUNTS)
    for bits, dtype, hidden, count in kinds:
        for group in {hidden, 128 if hidden % 128 == 0 else 8}:
            packed, scales = random_table(501, bits, dtype, hidden, group)
            ids = random_ids(count, 501)
            poison((count, hidden), dtype)
            if not same_bits(own(ids, packed, scales, bits), plain(ids, packed, scales, bits)):
                wrong.append(f"int{bits} {dtype} hidden {hidden} group {group} ids {count}")
    return wrong


def check_bounds() -> list[str]:
    """Ids outside the table give rows of zeros, beside right rows, over memory that held NaN."""
    wrong = []
    for count in (16, 512):
        packed, scales = random_table(300, 8, torch.bfloat16)
        ids = random_ids(count, 300)
        expected = plain(ids, packed, scales, 8)
        outside = torch.tensor([-1, 300, 1 << 62, -(1 << 62), 301], device=DEVICE)
        ids[1:6], expected[1:6] = outside, 0
        poison((count, HIDDEN), torch.bfloat16)
        found = own(ids, packed, scales, 8)
        torch.cuda.synchronize()
        if not same_bits(found, expected):
            wrong.append(f"ids outside the table, {count} ids")
    if own(torch.empty(0, device=DEVICE, dtype=torch.int64), packed, scales, 8).shape != (0, HIDDEN):
        wrong.append("no ids")
    return wrong


def check_large_table() -> list[str]:
    """A table of more than 2^31 codes: offsets need 64 bits."""
    rows = (1 << 31) // HIDDEN + 1000
    packed, scales = random_table(rows, 8, torch.bfloat16)
    ids = torch.tensor([rows - 1, rows - 999, 0, rows // 2], device=DEVICE)
    return [] if same_bits(own(ids, packed, scales, 8), plain(ids, packed, scales, 8)) else ["table over 2^31 codes"]


def check_graph() -> list[str]:
    """Captured in a CUDA graph, which forbids synchronisation, and on a stream that is not the default one."""
    packed, scales = random_table(1000, 4, torch.float16)
    ids = random_ids(48, 1000)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = own(ids, packed, scales, 4)
    ids.copy_(random_ids(48, 1000))
    out.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    return [] if same_bits(out, plain(ids, packed, scales, 4)) else ["replay of a CUDA graph"]


def replay_seconds(call: Callable[[int], object], calls: int, repeats: int = 15) -> float:
    """Return the median seconds of one call on the device: a graph of that many calls, replayed and timed by events."""
    torch.cuda.synchronize()  # what the calls read may still be in the making on another stream
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for turn in range(3):
            call(turn)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for turn in range(calls):
            call(turn)
    taken = []
    for repeat in range(repeats + 3):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        if repeat >= 3:
            taken.append(start.elapsed_time(end) / 1e3 / calls)
    return statistics.median(taken)


def eager_seconds(call: Callable[[int], object], calls: int = 200, repeats: int = 15) -> float:
    """Return the median wall seconds of one call made from Python, with the queue emptied after every batch."""
    taken = []
    for repeat in range(repeats + 3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for turn in range(calls):
            call(turn)
        torch.cuda.synchronize()
        if repeat >= 3:
            taken.append((time.perf_counter() - start) / calls)
    return statistics.median(taken)


def copy_bandwidths() -> dict[str, float]:
    """Return bytes per second, read plus written, of copies: the driver's of 1 and 4 GiB, and a kernel's.

    In a captured graph the driver's copy of 1 GiB was seen at two thirds of what a kernel reaches, so the fastest of
    several ways stands for what the memory can do.
    """
    return {f"{way}_{gib}_gib": copy_bandwidth(way, gib) for gib in (1, 4) for way in ("driver", "kernel")}


def copy_bandwidth(way: str, gib: int) -> float:
    """Return bytes per second, read plus written, of a copy of that many GiB by the driver or by a kernel."""
    source = torch.randn(gib << 28, device=DEVICE)
    target = torch.empty_like(source)
    ways: dict[str, Callable[[int], object]] = {
        "driver": lambda _: target.copy_(source),
        "kernel": lambda _: torch.neg(source, out=target),
    }
    return 2 * source.numel() * source.element_size() / replay_seconds(ways[way], calls=4)


def caller(lookup: Lookup, bits: int, count: int, table: tuple[torch.Tensor, torch.Tensor]) -> Callable[[int], object]:
    """Return a function of a turn's number that looks up another set of ids, into other memory, each turn."""
    packed, scales = table
    sets = [random_ids(count, len(packed)) for _ in range(ID_SETS)]
    results: list[torch.Tensor | None] = [None] * ID_SETS

    def call(turn: int) -> None:
        results[turn % ID_SETS] = lookup(sets[turn % ID_SETS], packed, scales, bits)

    return call


def measure_many(bits: int, table: tuple[torch.Tensor, torch.Tensor], copy: float) -> list[dict[str, Any]]:
    """Measure bandwidth with many rows, twice each: the difference between the two is the noise."""
    per_row = HIDDEN * bits // 8 + 2 * (HIDDEN // GROUP) + 2 * HIDDEN
    found = []
    for count in MANY_ROWS:
        seconds = [replay_seconds(caller(own, bits, count, table), calls=ID_SETS * 2) for _ in range(2)]
        rates = [per_row * count / second for second in seconds]
        found.append(
            {
                "bits": bits,
                "rows": count,
                "us": [round(second * 1e6, 2) for second in seconds],
                "gb_per_s": [round(rate / 1e9, 1) for rate in rates],
                "percent_of_copy": [round(100 * rate / copy, 1) for rate in rates],
            }
        )
    return found


def measure_few(bits: int, table: tuple[torch.Tensor, torch.Tensor]) -> list[dict[str, Any]]:
    """Measure microseconds a call with few rows, on the device and from Python, for every lookup there is."""
    triton = upstream()
    lookups: dict[str, Lookup] = {"own": own, "plain": plain, **({"upstream": triton} if triton else {})}
    found = []
    for count in FEW_ROWS:
        entry: dict[str, Any] = {"bits": bits, "rows": count}
        for name, lookup in lookups.items():
            call = caller(lookup, bits, count, table)
            entry[name] = {
                "graph_us": round(replay_seconds(call, calls=64) * 1e6, 2),
                "eager_us": round(eager_seconds(call) * 1e6, 2),
            }
        found.append(entry)
    return found


def main() -> int:
    """Check, measure, print one JSON line."""
    parser = argparse.ArgumentParser(description="hq::embedding_dequant on a GPU")
    parser.add_argument("library", help="path of _hq_C.abi3.so")
    torch.ops.load_library(parser.parse_args().library)
    torch.manual_seed(0)
    wrong = [*check_cases(), *check_bounds(), *check_large_table(), *check_graph()]
    copies = copy_bandwidths()
    copy = max(copies.values())
    many, few = [], []
    for bits in (8, 4):
        table = random_table(VOCABULARY, bits, torch.bfloat16)
        many += measure_many(bits, table, copy)
        few += measure_few(bits, table)
        del table
    result = {
        "wrong": wrong,
        "copy_gb_per_s": {way: round(rate / 1e9, 1) for way, rate in copies.items()},
        "many": many,
        "few": few,
        "gpu": torch.cuda.get_device_name(),
        "capability": torch.cuda.get_device_capability(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
    }
    print(json.dumps(result))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
