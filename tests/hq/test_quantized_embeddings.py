"""Packed token embeddings: which tables are packed, that every path reads the same rows, and what a shard reads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.hq import ops
from vllm.hq import quantized_embeddings as embeddings
from vllm.model_executor import parameter as upstream_parameter
from vllm.model_executor.layers import vocab_parallel_embedding as upstream_layer
from vllm.model_executor.layers.quantization.compressed_tensors.compressed_tensors import CompressedTensorsConfig
from vllm.model_executor.layers.quantization.compressed_tensors.compressed_tensors_embedding import (
    CompressedTensorsEmbeddingWNA16Int,
)

TARGET_NAME = "model.language_model.embed_tokens"
MODELS = ["language_model.model", "model", "mtp"]
UNTIED = SimpleNamespace(tie_word_embeddings=False)


def make_config(targets: list[str], ignore: tuple[str, ...] = (), **weights: Any) -> CompressedTensorsConfig:
    """Return a config that packs the targets, to int8 in groups of 128 unless told otherwise."""
    group = {
        "targets": targets,
        "weights": {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "group", "group_size": 128} | weights,
    }
    config = CompressedTensorsConfig.from_config(
        {
            "quant_method": "compressed-tensors",
            "format": "pack-quantized",
            "ignore": list(ignore),
            "config_groups": {"group_0": group},
        }
    )
    config.packed_modules_mapping = {"qkv_proj": ["q_proj", "k_proj", "v_proj"]}
    return config


def make_table(rows: int, hidden: int, groups: int, bits: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return (words int32, scales, dequantized rows), the rows from Python integers and float64."""
    random = np.random.default_rng(rows + hidden + groups + bits)
    data = random.integers(0, 256, size=(rows, hidden * bits // 8), dtype=np.uint8)
    scales = torch.from_numpy(random.normal(scale=0.01, size=(rows, groups))).to(dtype)
    if bits == 8:
        stored = data.astype(np.int64)
    else:
        stored = np.stack([data & 15, data >> 4], axis=-1).reshape(rows, hidden).astype(np.int64)
    wide = np.repeat(scales.double().numpy(), hidden // groups, axis=1)
    # A product of 8 bits and a scale's 11 is exact in float64, so the conversion is the only rounding.
    dense = torch.from_numpy((stored - 2 ** (bits - 1)) * wide).to(dtype)
    return torch.from_numpy(data.view("<i4").copy()), scales, dense


@pytest.mark.parametrize("gather", [embeddings.gather_torch, embeddings.gather_operator])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("shape", [(7, 128, 1), (33, 256, 2), (5, 1024, 8), (3, 64, 8), (9, 48, 1)])
def test_every_path_rounds_once(
    gather: embeddings.Gather, dtype: torch.dtype, bits: int, shape: tuple[int, int, int]
) -> None:
    rows, hidden, groups = shape
    words, scales, dense = make_table(rows, hidden, groups, bits, dtype)
    ids = torch.tensor([0, rows - 1, rows // 2, 0])
    read = gather(ids, words, scales, hidden, bits)
    assert read.dtype == dtype
    assert torch.equal(read, dense[ids])
    assert gather(ids[:0], words, scales, hidden, bits).shape == (0, hidden)


@pytest.mark.parametrize(
    ("targets", "ignore", "packed"),
    [
        (["Linear"], (), False),
        (["re:.*self_attn.*", "re:.*mlp.*"], (), False),
        (["re:.*embed_tokens$"], (), True),
        (["re:.*embed_tokens$"], ("lm_head", "re:.*mtp.*"), True),
        ([TARGET_NAME], (), True),
        (["model.embed_tokens"], (), True),
        (["Linear", TARGET_NAME], ("lm_head",), True),
        (["Embedding"], (), True),
        (["re:.*"], (TARGET_NAME,), False),
        (["Embedding"], ("re:.*embed_tokens$",), False),
        (["model.visual.embed_tokens"], (), False),
    ],
)
@pytest.mark.parametrize("prefix", MODELS)
def test_target_and_draft_agree_on_what_is_packed(
    monkeypatch: pytest.MonkeyPatch, targets: list[str], ignore: tuple[str, ...], packed: bool, prefix: str
) -> None:
    be_rank(monkeypatch, 0, 1)
    config = make_config(targets, ignore)
    arguments = embeddings.embedding_arguments(config, UNTIED, prefix)
    if not packed:
        assert arguments == {}
        return
    assert arguments["quant_config"] is config
    with layer_context():
        layer = upstream_layer.VocabParallelEmbedding(512, 256, params_dtype=torch.bfloat16, **arguments)
    assert isinstance(layer.quant_method, CompressedTensorsEmbeddingWNA16Int)


def test_a_mapped_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.model_executor.models.qwen3_5 import Qwen3_5ForConditionalGeneration

    config = make_config([TARGET_NAME])
    config.apply_vllm_mapper(Qwen3_5ForConditionalGeneration.hf_to_vllm_mapper)
    arguments = embeddings.embedding_arguments(config, UNTIED, "language_model.model")
    assert arguments["prefix"] == "language_model.model.embed_tokens"


@pytest.mark.parametrize(
    "weights",
    [
        {"type": "float"},
        {"symmetric": False},
        {"strategy": "tensor", "group_size": None},
        {"dynamic": True},
    ],
)
def test_other_schemes_are_left_to_upstream(weights: dict[str, Any]) -> None:
    assert embeddings.embedding_arguments(make_config([TARGET_NAME], **weights), UNTIED, "model") == {}


def test_unquantized_and_other_methods_are_left_to_upstream() -> None:
    other = SimpleNamespace(get_name=lambda: "gptq")
    assert embeddings.embedding_arguments(None, UNTIED, "model") == {}
    assert embeddings.embedding_arguments(other, UNTIED, "model") == {}


@pytest.mark.parametrize("switch", ["VLLM_HQ", "VLLM_HQ_QUANTIZED_EMBEDDINGS"])
def test_switched_off_is_upstream(monkeypatch: pytest.MonkeyPatch, switch: str) -> None:
    monkeypatch.setenv(switch, "0")
    assert embeddings.embedding_arguments(make_config([TARGET_NAME]), UNTIED, "model") == {}
    assert embeddings.choose_gather(make_layer(8, 256, 2), 8, upstream_gather) is upstream_gather


def test_a_packed_table_cannot_be_the_output_layer() -> None:
    tied = SimpleNamespace(tie_word_embeddings=True)
    with pytest.raises(ValueError, match="tie_word_embeddings to false"):
        embeddings.embedding_arguments(make_config([TARGET_NAME]), tied, "model")
    assert embeddings.embedding_arguments(make_config(["Linear"]), tied, "model") == {}


def upstream_gather(*_: Any) -> Tensor:
    """Stand for upstream's kernel, which needs Triton."""
    raise AssertionError("must not be called")


def make_layer(bits: int, hidden: int, groups: int, device: str = "cpu") -> Any:
    """Return what `choose_gather` looks at in a layer."""
    return SimpleNamespace(
        weight_packed=torch.empty(16, hidden * bits // 32, dtype=torch.int32, device=device),
        weight_scale=torch.empty(16, groups, dtype=torch.bfloat16, device=device),
        hidden_size=hidden,
    )


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The messages that the topic logs."""
    from vllm import logger as vllm_logger

    vllm_logger._print_info_once.cache_clear()
    vllm_logger._print_warning_once.cache_clear()
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(f"{record.levelname} {record.getMessage()}")  # type: ignore[method-assign]
    embeddings.logger.addHandler(handler)
    monkeypatch.setattr(embeddings.logger, "level", logging.INFO)
    yield messages
    embeddings.logger.removeHandler(handler)


def test_the_operator_is_chosen_and_named_once(lines: list[str]) -> None:
    for _ in range(2):
        assert embeddings.choose_gather(make_layer(8, 256, 2), 8, upstream_gather) is embeddings.gather_operator
    assert lines == ["INFO quantized-embeddings: the int8 token table of 16 x 256 is read by hq::embedding_dequant"]


@pytest.mark.parametrize(
    ("bits", "hidden", "groups", "why"),
    [(2, 256, 2, "4 and 8 bits, not 2"), (8, 60, 1, "60 columns"), (4, 64, 16, "16 groups")],
)
def test_a_table_that_the_operator_cannot_read(lines: list[str], bits: int, hidden: int, groups: int, why: str) -> None:
    layer = make_layer(bits, hidden, groups)
    assert embeddings.choose_gather(layer, bits, upstream_gather) is embeddings.gather_torch
    on_card = make_layer(bits, hidden, groups, device="meta")
    assert embeddings.choose_gather(on_card, bits, upstream_gather) is upstream_gather
    assert [line.split()[0] for line in lines] == ["WARNING", "WARNING"]
    assert all(why in line for line in lines)


def test_no_library(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops, "reason", lambda: "_hq_C.abi3.so is not in this installation")
    assert embeddings.choose_gather(make_layer(8, 256, 2), 8, upstream_gather) is embeddings.gather_torch
    (line,) = lines
    assert line.endswith("is read by torch, because _hq_C.abi3.so is not in this installation")


def layer_context() -> Any:
    """Return a context in which upstream's layers can be made."""
    return set_current_vllm_config(VllmConfig())


def be_rank(monkeypatch: pytest.MonkeyPatch, rank: int, size: int) -> None:
    """Let upstream's layers believe that they are on that rank; sums over ranks are left to the test."""
    for module in (upstream_layer, upstream_parameter):
        monkeypatch.setattr(module, "get_tensor_model_parallel_rank", lambda: rank)
        monkeypatch.setattr(module, "get_tensor_model_parallel_world_size", lambda: size)
    monkeypatch.setattr(upstream_layer, "tensor_model_parallel_all_reduce", lambda part: part)


def build_layer(monkeypatch: pytest.MonkeyPatch, rank: int, size: int, table: tuple[Tensor, Tensor], bits: int) -> Any:
    """Return upstream's embedding layer as that rank of a tensor-parallel group builds and loads it."""
    words, scales = table
    be_rank(monkeypatch, rank, size)
    arguments = embeddings.embedding_arguments(make_config([TARGET_NAME], num_bits=bits), UNTIED, "model")
    hidden = words.shape[1] * 32 // bits
    with layer_context():
        layer = upstream_layer.VocabParallelEmbedding(words.shape[0], hidden, params_dtype=scales.dtype, **arguments)
    loaded = {"weight_packed": words, "weight_scale": scales, "weight_shape": torch.tensor([words.shape[0], hidden])}
    for name, parameter in layer.named_parameters():
        parameter.weight_loader(parameter, loaded[name])
    layer.quant_method.process_weights_after_loading(layer)
    return layer


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_shards_add_up_to_the_table(monkeypatch: pytest.MonkeyPatch, bits: int, size: int) -> None:
    rows = 250  # not a multiple of the padding, so that the last shard is short
    words, scales, dense = make_table(rows, 256, 2, bits, torch.bfloat16)
    ids = torch.arange(rows).view(5, 50)
    parts = [build_layer(monkeypatch, rank, size, (words, scales), bits)(ids) for rank in range(size)]
    assert torch.equal(torch.stack(parts).sum(0), dense[ids])
    if size > 1:
        assert all(part.any() and not torch.equal(part, dense[ids]) for part in parts), "every shard owns some rows"


def test_a_compiled_graph_holds_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    words, scales, dense = make_table(64, 256, 2, 8, torch.bfloat16)
    layer = build_layer(monkeypatch, 0, 1, (words, scales), 8)
    targets: list[Any] = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        targets.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    compiled = torch.compile(layer, backend=backend, fullgraph=True, dynamic=True)
    for count in (3, 9):
        ids = torch.arange(count)
        assert torch.equal(compiled(ids), dense[ids])
    assert targets.count(torch.ops.hq.embedding_dequant) == 1


def test_the_operator_passes_torchs_own_check() -> None:
    words, scales, _ = make_table(64, 256, 2, 8, torch.bfloat16)
    assert embeddings.choose_gather(make_layer(8, 256, 2), 8, upstream_gather) is embeddings.gather_operator
    result = torch.library.opcheck(torch.ops.hq.embedding_dequant.default, (torch.arange(9), words, scales, 8))
    assert set(result.values()) == {"SUCCESS"}
