"""Write copycat with its token table packed to int8, and its twin with the same table dequantized.

    python tests/lab/copycat_pair.py COPYCAT FOLDER

makes ``FOLDER/packed`` and ``FOLDER/dense``; only the shard that holds the table, its index and the configuration
differ from the source. Needs torch and safetensors, no GPU.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).parent.parent / "serve"))
from checkpoints import GROUP, pack, quantize, write_json

BITS = 8
TABLE = "model.embed_tokens"
INDEX = "model.safetensors.index.json"


def main(source: Path, folder: Path) -> None:
    """Write both checkpoints."""
    index = json.loads((source / INDEX).read_text(encoding="utf-8"))
    shard = index["weight_map"].pop(f"{TABLE}.weight")
    weights = load_file(source / shard)
    table = weights.pop(f"{TABLE}.weight")
    values, scales = quantize(table, BITS)
    dense = (values.unflatten(1, (-1, GROUP)).float() * scales.float().unsqueeze(-1)).flatten(1).bfloat16()
    packed = {
        f"{TABLE}.weight_packed": pack(values, BITS),
        f"{TABLE}.weight_scale": scales,
        f"{TABLE}.weight_shape": torch.tensor(table.shape),
    }
    arguments = {"num_bits": BITS, "type": "int", "symmetric": True, "strategy": "group", "group_size": GROUP}
    quantization = {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "quantization_status": "compressed",
        "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": [TABLE], "weights": arguments}},
    }
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    variants = {
        "packed": (packed, config | {"quantization_config": quantization}),
        "dense": ({f"{TABLE}.weight": dense}, config),
    }
    for name, (tables, settings) in variants.items():
        target = folder / name
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(shard, INDEX, "config.json"))
        save_file(weights | tables, target / shard, metadata={"format": "pt"})
        write_json(target / "config.json", settings)
        write_json(target / INDEX, index | {"weight_map": index["weight_map"] | dict.fromkeys(tables, shard)})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
