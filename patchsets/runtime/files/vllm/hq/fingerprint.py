"""What of this build can change a compiled graph, as one value for vLLM's compile-cache key.

vLLM keys its caches by its version, its configuration and the Python files that it traced. Operators in our library and
values read at start are none of these, so an upgraded wheel could replay a graph that an older one compiled.
"""

from __future__ import annotations

import hashlib

from vllm.hq import knobs, manifest, ops


def compile_factors() -> tuple[str, ...]:
    """Return what the configuration's hash has to cover besides upstream's factors; nothing under ``VLLM_HQ=0``.

    Raises:
        ValueError: a switch is wrong (see `knobs.values`) or the manifest is damaged.
    """
    return (compile_key(),) if knobs.values()[knobs.MASTER] else ()


def compile_key() -> str:
    """Return the sha256, in hexadecimal, of the manifest, all switches and whether the operators are there."""
    found = manifest.read()
    digest = hashlib.sha256(found.raw if found else b"")
    switches = " ".join(f"{name}={int(on)}" for name, on in sorted(knobs.values().items()))
    digest.update(f"\0{switches}\0operators={int(ops.loaded())}".encode())
    return digest.hexdigest()
