"""Compiles a small model that reads a packed table, as vLLM compiles any; run inside a tree: ``compile_once.py``.

Prints, as JSON, the folder of the compile cache that was used, and whether the compiled graph was loaded from it.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from vllm.compilation.counter import compilation_counter
from vllm.compilation.decorators import support_torch_compile
from vllm.config import CompilationMode, VllmConfig, set_current_vllm_config
from vllm.forward_context import set_forward_context
from vllm.hq import quantized_embeddings


@support_torch_compile(dynamic_arg_dims={"ids": 0})
class Lookup(torch.nn.Module):
    """A packed table of 64 rows of 256, and one operation on what it gives."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        self.weight_packed = torch.arange(64 * 64, dtype=torch.int32).view(64, 64)
        self.weight_scale = torch.ones(64, 2, dtype=torch.bfloat16)
        self.hidden_size = 256
        self.gather = quantized_embeddings.choose_gather(self, 8, quantized_embeddings.gather_torch)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows, plus one."""
        return self.gather(ids, self.weight_packed, self.weight_scale, 256, 8) + 1


def main() -> None:
    """Build, call once, report."""
    config = VllmConfig()
    # The CPU platform compiles in another way, whose artifacts vLLM cannot load again; a GPU's is this one.
    config.compilation_config.mode = CompilationMode.VLLM_COMPILE
    config.compilation_config.backend = "inductor"
    config.compilation_config.compile_sizes = []
    ids = torch.arange(7)
    with set_current_vllm_config(config), set_forward_context(None, config), torch.inference_mode():
        model: Any = Lookup(vllm_config=config)
        rows = model(ids)
    expected = model.gather(ids, model.weight_packed, model.weight_scale, 256, 8) + 1
    report = {
        "folder": config.compilation_config.local_cache_dir,
        "compiled": compilation_counter.num_aot_compiles,
        "loaded": compilation_counter.num_aot_artifacts_loaded,
        "right": torch.equal(rows, expected),
    }
    print("\n" + json.dumps(report))


if __name__ == "__main__":
    main()
