"""One run of ``vllm serve``: start it, ask it, read its profile, stop it."""

from __future__ import annotations

import gzip
import json
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.vllm_tree import python, variables

CLIENT = Path(__file__).with_name("client.py")
START_LIMIT = 300
"""Seconds that a server may take to start; on two busy cores it takes one."""


@dataclass(frozen=True, slots=True)
class Run:
    """What to serve.

    Attributes:
        tree: the vLLM to run.
        model: folder of the checkpoint.
        options: more options of ``vllm serve``.
        settings: more environment variables.
        profiled: also record which operators a request calls.
    """

    tree: Path
    model: Path
    options: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    profiled: bool = False


@dataclass(frozen=True, slots=True)
class Served:
    """What came of a run.

    Attributes:
        answers: what ``client.py`` printed, in order; empty when the server did not start.
        log: all that the server printed.
        metrics: the text of ``/metrics``.
        operators: names of the operators that a request called in the worker, where that was recorded.
    """

    answers: list[dict[str, Any]]
    log: str
    metrics: str = ""
    operators: frozenset[str] = frozenset()

    @property
    def tokens(self) -> list[list[int]]:
        """The token ids of every answer."""
        return [answer["tokens"] for answer in self.answers]

    def lines(self, part: str) -> list[str]:
        """Return the lines of the log that hold that text."""
        return [line for line in self.log.splitlines() if part in line]

    def counter(self, name: str) -> float:
        """Return the value of a counter."""
        values = [line.rsplit(" ", 1)[1] for line in self.metrics.splitlines() if line.startswith(f"{name}{{")]
        assert len(values) == 1, f"{name} is not in the metrics exactly once"
        return float(values[0])


def serve(run: Run, folder: Path) -> Served:
    """Start the server, ask the client's prompts, and stop it.

    Args:
        run: what to serve.
        folder: new, for log and profile.
    """
    folder.mkdir()
    log, url = folder / "log.txt", f"http://127.0.0.1:{_free_port()}"
    with log.open("wb") as file:
        process = subprocess.Popen(
            _command(run, url, folder),
            env=variables(run.tree, **run.settings),
            cwd=folder,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            if not _wait(process, url):
                return Served([], log.read_text(encoding="utf-8", errors="replace"))
            asked = subprocess.run([str(python()), str(CLIENT), url], capture_output=True, text=True, check=False)
            assert asked.returncode == 0, f"{asked.stderr}\n{log.read_text(encoding='utf-8', errors='replace')}"
            operators = _profile(url, folder) if run.profiled else frozenset()
            metrics = httpx.get(f"{url}/metrics").text
        finally:
            _stop(process)
    return Served(json.loads(asked.stdout), log.read_text(encoding="utf-8", errors="replace"), metrics, operators)


def _command(run: Run, url: str, folder: Path) -> list[str]:
    host, port = url.removeprefix("http://").split(":")
    command = [str(python()), "-m", "vllm.entrypoints.cli.main", "serve", str(run.model)]
    command += ["--served-model-name", "tiny", "--host", host, "--port", port, "--max-model-len", "256"]
    command += ["--max-num-seqs", "4", "--no-enable-prefix-caching", "--limit-mm-per-prompt", '{"image":0,"video":0}']
    if run.profiled:
        profiler = {
            "profiler": "torch",
            "torch_profiler_dir": str(folder / "profile"),
            "torch_profiler_with_stack": False,
        }
        command += ["--profiler-config", json.dumps(profiler)]
    return [*command, *run.options]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], url: str) -> bool:
    """Wait until the server answers; False when it ended instead."""
    end = time.monotonic() + START_LIMIT
    with httpx.Client(base_url=url) as client:
        while time.monotonic() < end:
            if process.poll() is not None:
                return False
            try:
                if client.get("/health").is_success:
                    return True
            except httpx.TransportError:
                time.sleep(0.5)
    raise AssertionError(f"the server did not start within {START_LIMIT} seconds")


def _profile(url: str, folder: Path) -> frozenset[str]:
    """Return the operators that one short request calls in the worker, as torch's dispatcher recorded them."""
    with httpx.Client(base_url=url, timeout=300) as client:
        client.post("/start_profile").raise_for_status()
        request = {"model": "tiny", "prompt": "Hello", "max_tokens": 3, "temperature": 0}
        client.post("/v1/completions", json=request).raise_for_status()
        client.post("/stop_profile").raise_for_status()
    (trace,) = folder.glob("profile/rank0*.trace.json.gz")
    with gzip.open(trace, "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    return frozenset(event["name"] for event in events if event.get("cat") == "cpu_op")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask the server to end, and end what is left of its own session."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
