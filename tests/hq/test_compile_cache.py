"""An upgraded wheel never replays a graph that an older one compiled: real compilations over one old cache."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import vllm_tree

pytestmark = pytest.mark.kernel


@dataclass(frozen=True, slots=True)
class Compilation:
    """What ``compile_once.py`` reports."""

    folder: str
    compiled: int
    loaded: int
    right: bool


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the built wheel."""
    return vllm_tree.unpack(vllm_tree.built_wheel("0.33.0"), tmp_path_factory.mktemp("tree"))


def run(tree: Path, cache: Path, **settings: str) -> Compilation:
    """Start a process that compiles, or loads, with that cache."""
    command = [str(vllm_tree.python()), str(Path(__file__).with_name("compile_once.py"))]
    environment = vllm_tree.variables(tree, VLLM_CACHE_ROOT=str(cache), **settings)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Compilation(**json.loads(done.stdout.strip().splitlines()[-1]))


def test_an_old_cache_is_used_by_the_build_that_made_it_and_by_no_other(tree: Path, tmp_path: Path) -> None:
    first, again = run(tree, tmp_path), run(tree, tmp_path)
    assert (first.compiled, first.loaded, first.right) == (1, 0, True)
    assert (again.compiled, again.loaded, again.right) == (0, 1, True)

    manifest = tree / "vllm" / "hq" / "manifest.json"
    value = json.loads(manifest.read_bytes())
    manifest.write_text(json.dumps(value | {"revision": value["revision"] + 1}), encoding="utf-8")
    upgraded = run(tree, tmp_path)
    assert (upgraded.compiled, upgraded.loaded, upgraded.right) == (1, 0, True)
    assert upgraded.folder != first.folder

    switched = run(tree, tmp_path, VLLM_HQ_QUANTIZED_EMBEDDINGS="0")
    assert (switched.compiled, switched.loaded, switched.right) == (1, 0, True)
