"""Writes tiny Qwen3.5 checkpoints; run with the CPU environment's Python: ``checkpoints.py FOLDER``.

``FOLDER/int8`` and ``FOLDER/int4`` hold the token table packed as compressed-tensors packs it, in symmetric groups of
128 columns; ``FOLDER/int8-plain`` and ``FOLDER/int4-plain`` hold the same table dequantized. Everything else is equal:
a hybrid of three linear-attention layers and one full one, an MTP layer, and a vision tower that is not used.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

VOCABULARY, HIDDEN, GROUP = 512, 256, 128
TABLE = "model.language_model.embed_tokens"
SPECIAL = {"eos": 2, "vision_start": 3, "vision_end": 4, "image": 5, "video": 6}


def write_base(folder: Path) -> None:
    """Write the unquantized model, its tokenizer and an image processor's configuration."""
    folder.mkdir(parents=True)
    torch.manual_seed(7)
    text = {
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": 256,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "linear_key_head_dim": 64,
        "linear_value_head_dim": 64,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "max_position_embeddings": 1024,
        "eos_token_id": SPECIAL["eos"],
        "mtp_num_hidden_layers": 1,
        "tie_word_embeddings": False,
        "initializer_range": 0.08,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "mrope_section": [4, 2, 2],
            "mrope_interleaved": True,
            "partial_rotary_factor": 0.25,
        },
    }
    vision = {
        "depth": 1,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_heads": 2,
        "out_hidden_size": HIDDEN,
        "num_position_embeddings": 64,
    }
    config = Qwen3_5Config(
        text_config=text,
        vision_config=vision,
        image_token_id=SPECIAL["image"],
        video_token_id=SPECIAL["video"],
        vision_start_token_id=SPECIAL["vision_start"],
        vision_end_token_id=SPECIAL["vision_end"],
        tie_word_embeddings=False,
    )
    model = Qwen3_5ForConditionalGeneration(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    weights |= mtp_weights(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    write_tokenizer(folder)
    image = {
        "patch_size": 16,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
    }
    image |= {
        "image_processor_type": "Qwen2VLImageProcessorFast",
        "size": {"shortest_edge": 65536, "longest_edge": 16777216},
    }
    write_json(folder / "preprocessor_config.json", image)


def mtp_weights(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return an MTP module: the full-attention layer again, a random projection and neutral norms."""
    layer = ".layers.3."
    made = {"mtp.layers.0." + name.split(layer)[1]: part.clone() for name, part in weights.items() if layer in name}
    made["mtp.fc.weight"] = torch.randn(HIDDEN, 2 * HIDDEN).mul(0.05).bfloat16()
    for name in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"):
        made[f"mtp.{name}.weight"] = torch.zeros(HIDDEN, dtype=torch.bfloat16)
    return made


def write_tokenizer(folder: Path) -> None:
    """Write a tokenizer of single bytes behind the special tokens."""
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"]
    names += ["<|image_pad|>", "<|video_pad|>"]
    entries = names + sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {name: number for number, name in enumerate(entries)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(names)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "image_token": "<|image_pad|>",
        "video_token": "<|video_pad|>",
        "vision_bos_token": "<|vision_start|>",
        "vision_eos_token": "<|vision_end|>",
        "chat_template": "{% for message in messages %}{{ message.content }}{% endfor %}",
    }
    write_json(folder / "tokenizer_config.json", settings)


def quantize(table: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Return (values [rows, columns] int64, signed; scales [rows, groups] bfloat16) of a bfloat16 table."""
    grouped = table.float().unflatten(1, (-1, GROUP))
    scales = (grouped.abs().amax(-1) / (2 ** (bits - 1) - 0.5)).bfloat16()
    values = (grouped / scales.float().unsqueeze(-1)).round().clamp(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return values.flatten(1).long(), scales


def pack(values: Tensor, bits: int) -> Tensor:
    """Return signed values in int32 words, the first one in the lowest bits, each plus half its range."""
    count = 32 // bits
    stored = (values + 2 ** (bits - 1)).unflatten(1, (-1, count))
    words = sum(stored[..., place] * 2 ** (bits * place) for place in range(count))
    return torch.where(words >= 2**31, words - 2**32, words).int()


def write_pair(base: Path, folder: Path, bits: int, target: str) -> None:
    """Write the packed checkpoint and its plain twin, the packed table named by that target."""
    weights = load_file(base / "model.safetensors")
    values, scales = quantize(weights.pop(f"{TABLE}.weight"), bits)
    plain = (values.unflatten(1, (-1, GROUP)).float() * scales.float().unsqueeze(-1)).flatten(1).bfloat16()
    packed = {
        "weight_packed": pack(values, bits),
        "weight_scale": scales,
        "weight_shape": torch.tensor([VOCABULARY, HIDDEN]),
    }
    config = json.loads((base / "config.json").read_text(encoding="utf-8"))
    weights_arguments = {"num_bits": bits, "type": "int", "symmetric": True, "strategy": "group", "group_size": GROUP}
    packing = {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "quantization_status": "compressed",
        "ignore": ["lm_head", "re:.*mtp.*"],
        "config_groups": {"group_0": {"targets": [target], "weights": weights_arguments}},
    }
    tables = {f"{TABLE}.{name}": part for name, part in packed.items()}
    write_copy(base, folder, weights | tables, config | {"quantization_config": packing})
    write_copy(base, folder.with_name(f"{folder.name}-plain"), weights | {f"{TABLE}.weight": plain}, config)


def write_copy(base: Path, folder: Path, weights: dict[str, Tensor], config: dict[str, Any]) -> None:
    """Write a checkpoint with the base's tokenizer and processor."""
    shutil.copytree(base, folder, ignore=shutil.ignore_patterns("*.safetensors", "config.json"))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    write_json(folder / "config.json", config)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file."""
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")


def main(folder: Path) -> None:
    """Write all checkpoints; the two widths name the table in the two ways that recipes do."""
    write_base(folder / "base")
    write_pair(folder / "base", folder / "int8", 8, TABLE)
    write_pair(folder / "base", folder / "int4", 4, "re:.*embed_tokens$")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
