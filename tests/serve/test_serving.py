"""Real serving on the CPU: the built wheel's Python answers with a packed token table as with the table dequantized.

Each run is a ``vllm serve`` process with its own engine and worker, asked by an OpenAI client. This is vLLM's V1 runner
without Triton: it shows nothing about what drafts or verifies on a GPU.
"""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import vllm_tree
from tests.serve.client import LENGTH, PROMPTS
from tests.serve.server import Run, Served, serve

pytestmark = pytest.mark.serve

PIN = "0.33.0"
EAGER = ("--enforce-eager",)
MTP = (*EAGER, "--speculative-config", json.dumps({"method": "mtp", "num_speculative_tokens": 2}))
OPERATOR = "hq::embedding_dequant"
SHIFT = "aten::__rshift__"
"""What torch's path calls to unpack a word, and nothing else in this model does."""
GUARD = "hq 0.33.0+hq"


def runs(folder: Path) -> dict[str, Run]:
    """Return what is served, by name; the trees and checkpoints are made in the folder."""
    wheel = vllm_tree.built_wheel(PIN)
    ours = vllm_tree.unpack(wheel, folder / "ours")
    bare = vllm_tree.without_library(ours, folder / "bare")
    upstream = vllm_tree.unpack(vllm_tree.official_wheel(PIN), folder / "upstream")
    models = folder / "models"
    make = [str(vllm_tree.python()), str(Path(__file__).with_name("checkpoints.py")), str(models)]
    subprocess.run(make, env=vllm_tree.variables(ours), check=True, capture_output=True)
    off = {"VLLM_HQ": "0"}
    return {
        "int8": Run(ours, models / "int8", EAGER, profiled=True),
        "plain, upstream": Run(upstream, models / "int8-plain", EAGER),
        "int8, mtp": Run(ours, models / "int8", MTP, profiled=True),
        "plain, mtp": Run(ours, models / "int8-plain", MTP),
        "plain, switched off": Run(ours, models / "int8-plain", EAGER, off),
        "int8, no library": Run(bare, models / "int8", EAGER, {"VLLM_PLUGINS": "no_plugin"}, profiled=True),
        "int4": Run(ours, models / "int4", EAGER, {"VLLM_HQ_QUANTIZED_EMBEDDINGS": "true"}, profiled=True),
        "int4 plain, upstream": Run(upstream, models / "int4-plain", EAGER),
        "int8, switched off": Run(ours, models / "int8", EAGER, off),
        "int8, upstream": Run(upstream, models / "int8", EAGER),
    }


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Served]:
    """All runs, two at a time: a server spends its start importing, on one core."""
    folder = tmp_path_factory.mktemp("serve")
    cache = {"VLLM_CACHE_ROOT": str(folder / "cache")}
    wanted = runs(folder)
    with ThreadPoolExecutor(2) as pool:
        started = {
            name: pool.submit(
                serve, Run(run.tree, run.model, run.options, run.settings | cache, run.profiled), folder / name
            )
            for name, run in wanted.items()
        }
        return {name: future.result() for name, future in started.items()}


@pytest.mark.parametrize(
    ("packed", "plain"),
    [
        ("int8", "plain, upstream"),
        ("int8, mtp", "plain, mtp"),
        ("int8, no library", "plain, upstream"),
        ("int4", "int4 plain, upstream"),
    ],
)
def test_a_packed_table_answers_as_the_dequantized_one(served: dict[str, Served], packed: str, plain: str) -> None:
    assert [len(tokens) for tokens in served[packed].tokens] == [LENGTH] * (len(PROMPTS) + 1)
    assert served[packed].answers == served[plain].answers


def test_the_answers_depend_on_the_table(served: dict[str, Served]) -> None:
    assert served["int8"].answers != served["int4"].answers
    assert len({tuple(tokens) for tokens in served["int8"].tokens}) == len(PROMPTS) + 1


def test_drafts_were_made_and_verified(served: dict[str, Served]) -> None:
    for name in ("int8, mtp", "plain, mtp"):
        assert served[name].counter("vllm:spec_decode_num_drafts_total") > LENGTH


@pytest.mark.parametrize("name", ["int8", "int8, mtp", "int4"])
def test_the_compiled_operator_read_the_rows(served: dict[str, Served], name: str) -> None:
    assert OPERATOR in served[name].operators
    assert (
        "aten::bitwise_right_shift" not in served[name].operators and "aten::__rshift__" not in served[name].operators
    )
    assert served[name].lines("token table of 512 x 256 is read by hq::embedding_dequant")


def test_without_the_library_torch_reads_them_and_one_line_says_so(served: dict[str, Served]) -> None:
    run = served["int8, no library"]
    assert SHIFT in run.operators
    assert OPERATOR not in run.operators
    (line,) = run.lines("_hq_C.abi3.so")
    assert "is read by torch, because _hq_C.abi3.so is not in this installation" in line


def test_switched_off_an_unpacked_checkpoint_answers_as_upstream(served: dict[str, Served]) -> None:
    assert served["plain, switched off"].answers == served["plain, upstream"].answers
    (line,) = served["plain, switched off"].lines(GUARD)
    assert "topics on: none; off: runtime (VLLM_HQ=0), quantized-embeddings (VLLM_HQ=0)" in line
    assert served["plain, switched off"].lines("Unknown vLLM environment variable") == []


def test_switched_off_a_packed_checkpoint_fails_as_upstream(served: dict[str, Served]) -> None:
    def cause(name: str) -> str:
        assert served[name].answers == []
        return next(line.split("ERROR", 1)[1].split("] ", 1)[1] for line in served[name].lines("weight_packed"))

    assert cause("int8, switched off") == cause("int8, upstream")


@pytest.mark.parametrize("name", ["int8", "int8, mtp", "plain, mtp", "int4"])
def test_the_engine_says_once_what_is_on(served: dict[str, Served], name: str) -> None:
    (line,) = served[name].lines(GUARD)
    assert "EngineCore" in line
    assert "topics on: runtime, quantized-embeddings; off: none" in line
    assert "edited" not in line and "missing" not in line


def test_without_the_plugin_there_is_no_line(served: dict[str, Served]) -> None:
    assert served["int8, no library"].lines(GUARD) == []
