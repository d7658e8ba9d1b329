"""Packed token embeddings: which tables stay packed, and how their rows are read.

A compressed-tensors checkpoint may hold the token table as signed integers of 4 or 8 bits in int32 words, with a scale
a group of columns. The model's embedding has to be built for it (`embedding_arguments`), and a lookup has to unpack the
rows that it reads (`choose_gather`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from vllm.hq import knobs, ops
from vllm.logger import init_logger

logger = init_logger(__name__)

TOPIC = "quantized-embeddings"
OPERATOR = "embedding_dequant"

Gather = Callable[[Tensor, Tensor, Tensor, int, int], Tensor]
"""(ids [n] int64, weight_packed [rows, words] int32, weight_scale [rows, groups], hidden, num_bits) -> [n, hidden]."""

_TABLE_NAMES = (
    "language_model.model.embed_tokens",
    "model.embed_tokens",
    "model.language_model.embed_tokens",
)
"""How a recipe may name the table: with and without the vision part, as vLLM and as the checkpoint spell it."""


def embedding_arguments(quant_config: Any, config: Any, prefix: str) -> dict[str, Any]:
    """Return what a model passes to its token embedding besides the sizes: nothing, as upstream, or quant_config.

    The draft module reads the target's table, which a recipe names by the target's module: it is looked for under
    every name of the table, and under the model's own unless that is the draft's.

    Args:
        quant_config: the model's quantization config, or None.
        config: the text model's configuration.
        prefix: name of the module that owns ``embed_tokens``.

    Raises:
        ValueError: the table is packed and also serves as output layer, which cannot read it.
    """
    if quant_config is None or quant_config.get_name() != "compressed-tensors" or not knobs.enabled(TOPIC):
        return {}
    own = f"{prefix}.embed_tokens" if prefix else "embed_tokens"
    names = _TABLE_NAMES if "mtp" in own.split(".") else (own, *_TABLE_NAMES)
    name = _packed_name(quant_config, names)
    if name is None:
        return {}
    if getattr(config, "tie_word_embeddings", False):
        raise ValueError(
            f"the checkpoint packs {name}, and tie_word_embeddings makes lm_head share it, but an output layer "
            "cannot read a packed table: store lm_head of its own and set tie_word_embeddings to false"
        )
    return {"quant_config": quant_config, "prefix": name}


def choose_gather(layer: torch.nn.Module, num_bits: int, upstream: Gather) -> Gather:
    """Choose, after loading, how the layer's rows are read, and say so in the log.

    The choice is made here and not in each lookup, so that a compiled graph holds one call and no branch.

    Args:
        layer: with ``weight_packed`` [rows, words] int32, ``weight_scale`` [rows, groups] and ``hidden_size``.
        num_bits: width of one value.
        upstream: upstream's gather, a Triton kernel.
    """
    if not knobs.enabled(TOPIC):
        return upstream
    rows, groups = layer.weight_scale.shape
    table = f"int{num_bits} token table of {rows} x {layer.hidden_size}"
    missing = _unfit(layer.hidden_size, groups, num_bits) or ops.why_missing(OPERATOR)
    if not missing:
        ops.set_fake(OPERATOR, _operator_fake)
        logger.info_once("%s: the %s is read by hq::%s", TOPIC, table, OPERATOR)
        return gather_operator
    on_cpu = layer.weight_packed.device.type == "cpu"
    other = "torch" if on_cpu else "upstream's Triton kernel"
    logger.warning_once("%s: the %s is read by %s, because %s", TOPIC, table, other, missing)
    return gather_torch if on_cpu else upstream


def gather_operator(ids: Tensor, weight_packed: Tensor, weight_scale: Tensor, hidden: int, num_bits: int) -> Tensor:
    """Read rows with the compiled operator; see `Gather`. It takes the row's width from the table."""
    del hidden
    return torch.ops.hq.embedding_dequant(ids, weight_packed, weight_scale, num_bits)


def gather_torch(ids: Tensor, weight_packed: Tensor, weight_scale: Tensor, hidden: int, num_bits: int) -> Tensor:
    """Read rows with torch alone, for a CPU without the operator; see `Gather`.

    A value is stored plus half its range, lowest bits first; it is multiplied in float32 and rounded once.
    """
    shifts = torch.arange(32 // num_bits, device=ids.device, dtype=torch.int32) * num_bits
    words = weight_packed[ids].unsqueeze(-1)
    values = ((words >> shifts) & ((1 << num_bits) - 1)) - (1 << (num_bits - 1))
    values = values.flatten(1)[:, :hidden].float()
    scales = weight_scale[ids].float().repeat_interleave(hidden // weight_scale.shape[1], dim=1)
    return (values * scales).to(weight_scale.dtype)


def _packed_name(quant_config: Any, names: tuple[str, ...]) -> str | None:
    """Return the name under which the config packs the table as integers, None when it does not."""
    from vllm.model_executor.layers.quantization.compressed_tensors.utils import should_ignore_layer

    if any(should_ignore_layer(name, quant_config.ignore) for name in names):
        return None
    # A target may be a class name; upstream looks at nothing else of the module.
    stand_in = type("VocabParallelEmbedding", (torch.nn.Module,), {})()
    for name in names:
        scheme = quant_config.get_scheme_dict(stand_in, layer_name=name)
        if scheme and scheme.get("input_activations") is None and _is_packed_integer(scheme.get("weights")):
            return name
    return None


def _is_packed_integer(weights: Any) -> bool:
    return (
        weights is not None
        and weights.type == "int"
        and weights.strategy in ("group", "channel")
        and weights.symmetric
        and not weights.dynamic
    )


def _unfit(hidden: int, groups: int, num_bits: int) -> str:
    """Return why the operator cannot read such a table, empty when it can."""
    if num_bits not in (4, 8):
        return f"the operator reads 4 and 8 bits, not {num_bits}"
    if hidden % 8 or hidden // groups % 8:
        return f"the operator reads groups of a multiple of 8 columns, not {hidden} columns in {groups} groups"
    return ""


def _operator_fake(ids: Tensor, weight_packed: Tensor, weight_scale: Tensor, num_bits: int) -> Tensor:
    hidden = weight_packed.shape[1] * (32 // num_bits)
    return weight_scale.new_empty((ids.shape[0], hidden))
