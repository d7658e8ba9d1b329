"""Serve a packed embedding table on a GPU and compare what comes out with the dequantized table's output.

Needs a GPU, a built wheel unpacked on PYTHONPATH with its requirements, and the trained copycat checkpoint
(Qwen3.5 architecture, ``t0 t1 ...`` word tokenizer) with the two variants that ``copycat_pair.py`` makes of it:

    python tests/lab/serve_copycat.py --packed DIR --dense DIR --logs DIR

Four servers run side by side, each a real ``vllm serve``: the packed table with our operator; the packed table without
the compiled library; the dequantized bf16 table; and that one with every topic off, which is upstream. Prints one JSON
line with the hash of each server's greedy output and its start-up line; exits 1 when the hashes differ.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

START_LIMIT = 420
"""Seconds; a cold engine of this size took 110-140 s alone."""
DOCUMENT_TOKENS = 1500
OUTPUT_TOKENS = 192
PROMPTS = 4


@dataclass(frozen=True)
class Variant:
    """One server: its checkpoint, its environment, and whether it uses a tree without the compiled library."""

    name: str
    model: Path
    port: int
    environment: dict[str, str] = field(default_factory=dict)
    without_library: bool = False


def tree_without_library(scratch: Path) -> Path:
    """Return a copy of the installed vllm package that links to every file but ``_hq_C.abi3.so``."""
    import importlib.util

    package = importlib.util.find_spec("vllm")
    assert package is not None and package.origin is not None
    source = Path(package.origin).parent
    copy = scratch / "site"
    shutil.copytree(
        source, copy / "vllm", copy_function=os.symlink, ignore=shutil.ignore_patterns("_hq_C.abi3.so", "__pycache__")
    )
    for info in source.parent.glob("vllm-*.dist-info"):
        shutil.copytree(info, copy / info.name)
    return copy


def start(variant: Variant, logs: Path) -> subprocess.Popen[bytes]:
    """Start one server in a process group of its own, its output in ``<logs>/<name>.log``."""
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(variant.model)]
    command += ["--host", "127.0.0.1", "--port", str(variant.port), "--served-model-name", "copycat"]
    command += ["--max-model-len", "4096", "--max-num-seqs", "4", "--no-enable-prefix-caching"]
    # A fixed pool: a profiled one would count what the servers beside this one allocate meanwhile.
    command += [
        "--gpu-memory-utilization",
        "0.2",
        "--kv-cache-memory-bytes",
        str(2 << 30),
        "--additional-config",
        '{"gdn_prefill_backend":"triton"}',
    ]
    environment = os.environ | variant.environment
    if variant.without_library:
        bare = tree_without_library(logs / "scratch")
        environment["PYTHONPATH"] = f"{bare}{os.pathsep}{environment.get('PYTHONPATH', '')}"
    log = (logs / f"{variant.name}.log").open("wb")
    return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True)


def wait_until_healthy(variant: Variant, process: subprocess.Popen[bytes], deadline: float) -> float:
    """Return the monotonic time at which the server answered; fail when it exits or the deadline passes."""
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"{variant.name} exited with {process.returncode} before it served")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{variant.port}/health", timeout=2) as answer:
                if answer.status == 200:
                    return time.monotonic()
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    raise SystemExit(f"{variant.name} was not ready after {START_LIMIT} s")


def prompts() -> list[str]:
    """Return documents followed by a copy mark and a cue of four tokens, as the model was trained on."""
    texts = []
    for seed in range(PROMPTS):
        words = random.Random(seed)
        document = [f"t{words.randrange(2040)}" for _ in range(DOCUMENT_TOKENS)]
        cue = words.randrange(DOCUMENT_TOKENS - OUTPUT_TOKENS - 4)
        texts.append(" ".join(["<bos>", *document, "<copy>", *document[cue : cue + 4]]))
    return texts


def generate(variant: Variant) -> str:
    """Return the sha256 of the greedy continuations of all prompts, one request at a time."""
    outputs = []
    for prompt in prompts():
        body = {"model": "copycat", "prompt": prompt, "temperature": 0, "max_tokens": OUTPUT_TOKENS}
        body |= {"ignore_eos": True, "return_token_ids": True}
        request = urllib.request.Request(
            f"http://127.0.0.1:{variant.port}/v1/completions",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            choice = json.load(answer)["choices"][0]
        outputs.append(choice["token_ids"])
    assert all(len(ids) == OUTPUT_TOKENS for ids in outputs), [len(ids) for ids in outputs]
    return hashlib.sha256(json.dumps(outputs).encode()).hexdigest()


def hq_lines(log: Path) -> list[str]:
    """Return what the guard and the topics logged."""
    ours = re.compile(r"\] ((?:hq \d|quantized-embeddings:).*)")
    return [found[1] for line in log.read_text(errors="replace").splitlines() if (found := ours.search(line))]


def main() -> None:
    """Start the servers, ask them, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packed", type=Path, required=True)
    parser.add_argument("--dense", type=Path, required=True)
    parser.add_argument("--logs", type=Path, required=True)
    args = parser.parse_args()
    args.logs.mkdir(parents=True, exist_ok=True)

    variants = [
        Variant("packed", args.packed, 8301),
        Variant("packed-no-library", args.packed, 8302, without_library=True),
        Variant("dense", args.dense, 8303),
        Variant("dense-upstream", args.dense, 8304, {"VLLM_HQ": "0"}),
    ]
    began = time.monotonic()
    running = {variant.name: start(variant, args.logs) for variant in variants}
    try:
        ready = {v.name: wait_until_healthy(v, running[v.name], began + START_LIMIT) - began for v in variants}
        hashes = {variant.name: generate(variant) for variant in variants}
    finally:
        for process in running.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(args.logs / "scratch", ignore_errors=True)
    result = {
        "hashes": hashes,
        "equal": len(set(hashes.values())) == 1,
        "start_seconds": {name: round(seconds) for name, seconds in ready.items()},
        "lines": {variant.name: hq_lines(args.logs / f"{variant.name}.log") for variant in variants},
    }
    print(json.dumps(result))
    sys.exit(0 if result["equal"] else 1)


if __name__ == "__main__":
    main()
