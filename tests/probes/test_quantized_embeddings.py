"""Probe of the topic quantized-embeddings: both models load a packed token table, and read its rows.

It knows nothing of ``vllm.hq``, so that it passes on a later vLLM that does the same by itself.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.model_executor import parameter
from vllm.model_executor.layers import vocab_parallel_embedding
from vllm.model_executor.layers.quantization.compressed_tensors.compressed_tensors import CompressedTensorsConfig
from vllm.model_executor.models import qwen3_5, qwen3_5_mtp

ROWS, HIDDEN, GROUP = 64, 256, 128
TABLE = "model.language_model.embed_tokens"


class BuiltError(Exception):
    """Ends the construction of a model at its token embedding; holds how that was called."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.call = (args, kwargs)


def embedding_of(module: ModuleType, model: type, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the embedding layer that the model makes for a checkpoint that packs the table to int8."""
    weights = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "group", "group_size": GROUP}
    quantization = CompressedTensorsConfig.from_config(
        {
            "quant_method": "compressed-tensors",
            "format": "pack-quantized",
            "ignore": ["lm_head"],
            "config_groups": {"group_0": {"targets": [TABLE], "weights": weights}},
        }
    )
    quantization.packed_modules_mapping = {}
    text = SimpleNamespace(vocab_size=ROWS, hidden_size=HIDDEN, num_hidden_layers=1, tie_word_embeddings=False)
    config = SimpleNamespace(
        model_config=SimpleNamespace(hf_text_config=text, hf_config=text),
        parallel_config=SimpleNamespace(eplb_config=SimpleNamespace(num_redundant_experts=0)),
        quant_config=quantization,
    )
    original = module.VocabParallelEmbedding

    def stop(*args: Any, **kwargs: Any) -> Any:
        raise BuiltError(args, kwargs)

    monkeypatch.setattr(module, "VocabParallelEmbedding", stop)
    with pytest.raises(BuiltError) as caught:
        model(vllm_config=config, prefix=prefix)
    for patched in (vocab_parallel_embedding, parameter):
        monkeypatch.setattr(patched, "get_tensor_model_parallel_rank", lambda: 0)
        monkeypatch.setattr(patched, "get_tensor_model_parallel_world_size", lambda: 1)
    args, kwargs = caught.value.call
    with set_current_vllm_config(VllmConfig()):
        return original(*args, params_dtype=torch.bfloat16, **kwargs)


@pytest.mark.parametrize(
    ("module", "name", "prefix"),
    [
        (qwen3_5, "Qwen3_5Model", "language_model.model"),
        (qwen3_5_mtp, "Qwen3_5MultiTokenPredictor", "mtp"),
    ],
)
def test_a_packed_table_is_loaded_and_read(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, prefix: str
) -> None:
    layer = embedding_of(module, getattr(module, name), prefix, monkeypatch)
    parameters = dict(layer.named_parameters())
    assert parameters["weight_packed"].shape == (ROWS, HIDDEN // 4)
    stored = torch.arange(ROWS * HIDDEN).view(ROWS, HIDDEN) % 256
    scales = torch.arange(1, 2 * ROWS + 1).view(ROWS, 2).bfloat16() / 1024
    packed = {
        "weight_packed": stored.to(torch.uint8).view(torch.int32),
        "weight_scale": scales,
        "weight_shape": torch.tensor([ROWS, HIDDEN]),
    }
    for key, value in packed.items():
        parameters[key].weight_loader(parameters[key], value)
    layer.quant_method.process_weights_after_loading(layer)
    ids = torch.tensor([[0, 5], [ROWS - 1, 5]])
    expected = ((stored - 128) * scales.double().repeat_interleave(GROUP, dim=1)).bfloat16()
    assert torch.equal(layer(ids), expected[ids])
