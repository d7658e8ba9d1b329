"""Imports run inwards only: cli -> jobs -> io and engine -> model; and ``--help`` imports nothing heavy."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ALLOWED = {
    "model": {"model"},
    "engine": {"engine", "model"},
    "io": {"io", "model"},
    "jobs": {"jobs", "io", "engine", "model"},
    "cli": {"cli", "jobs", "io", "engine", "model"},
}
IMPURE = {
    "subprocess",
    "socket",
    "httpx",
    "git",
    "shutil",
    "tempfile",
    "zipfile",
    "tarfile",
    "os",
    "pathlib",
    "click",
    "rich",
}
HEAVY = {"torch", "vllm", "numpy", "git", "httpx", "huggingface_hub", "rich", "unidiff", "cattrs", "pip", "setuptools"}


def imported(path: Path) -> set[str]:
    """Return the dotted names that a module imports, inside functions too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("ring", ALLOWED)
def test_ring_imports_inwards_only(ring: str) -> None:
    for path in sorted((ROOT / "toolkit" / ring).glob("*.py")):
        rings = {name.split(".")[1] for name in imported(path) if name.startswith("toolkit.")}
        assert rings <= ALLOWED[ring], f"{path.name} imports {rings - ALLOWED[ring]}"


@pytest.mark.parametrize("ring", ["model", "engine"])
def test_pure_rings_do_no_io(ring: str) -> None:
    for path in sorted((ROOT / "toolkit" / ring).glob("*.py")):
        impure = {name.split(".")[0] for name in imported(path)} & IMPURE
        assert not impure, f"{path.name} imports {impure}"


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from toolkit.cli.main import run; run(['--help']); print(sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = {name.split(".")[0] for name in ast.literal_eval(done.stderr)}
    assert "Commands" in done.stdout
    assert not loaded & HEAVY


def test_no_file_is_over_400_lines() -> None:
    long = {
        path.relative_to(ROOT).as_posix(): lines
        for folder in ("toolkit", "model_prep", "patchsets", "tests", "ci")
        for path in (ROOT / folder).rglob("*.py")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 400
    }
    assert long == {}
