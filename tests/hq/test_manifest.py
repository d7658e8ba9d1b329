"""The build manifest as the runtime reads it: the same file that hqtool writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from vllm.hq import manifest

from tests.hq.conftest import BUILT
from toolkit.engine.build_manifest import dump_manifest
from toolkit.model.build import MANIFEST_PATH, MANIFEST_SCHEMA, BuildManifest, BuiltKernels, BuiltTopic
from toolkit.model.chain import Chain, FileChain
from toolkit.model.ids import TopicId, blob_id, sha256

MADE = BuildManifest(
    version="0.33.0+hq1.sm86",
    pin="0.33.0",
    commit="4ba787ec9",
    base=sha256(b"base"),
    revision=1,
    torch="2.14.0",
    triton="3.8.0",
    topics=(
        BuiltTopic(
            id=TopicId("quick-path"),
            title="Quick",
            kind="speed",
            what="what",
            lossless=True,
            error="",
            upstream="pending",
            files=("vllm/a.py",),
            ops=("hq::quick", "slow"),
            knobs={"VLLM_HQ_QUICK_PATH": "1"},
        ),
    ),
    chain=Chain(
        (TopicId("quick-path"),),
        (FileChain("vllm/a.py", (blob_id(b"1"), blob_id(b"2"))), FileChain("vllm/b.py", (blob_id(b"3"), None))),
    ),
    generated={},
    kernels=BuiltKernels("vllm/hq/_hq_C.abi3.so", sha256(b"so"), 2, ("sm_86", "compute_86"), "13.0.88", "2.11"),
    tool="hqtool 0.1.0",
)


def test_what_hqtool_writes_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_bytes(dump_manifest(MADE))
    found = manifest.read(path)
    assert found is not None
    assert found.raw == path.read_bytes()
    assert (found.version, found.torch, found.triton) == ("0.33.0+hq1.sm86", "2.14.0", "3.8.0")
    assert found.topics == (manifest.Topic("quick-path", {"VLLM_HQ_QUICK_PATH": "1"}, ("quick", "slow")),)
    assert found.knobs == {"VLLM_HQ_QUICK_PATH": "1"}
    assert found.blobs == {"vllm/a.py": blob_id(b"2"), "vllm/b.py": None}
    assert found.architectures == ("sm_86", "compute_86")
    assert found.library == sha256(b"so")


def test_it_lies_where_hqtool_puts_it() -> None:
    assert manifest.PATH.as_posix().endswith(MANIFEST_PATH)
    assert manifest.SCHEMA == MANIFEST_SCHEMA


def test_a_tree_without_one(tmp_path: Path) -> None:
    assert manifest.read(tmp_path / "none.json") is None


def _bytes(**changes: Any) -> bytes:
    return json.dumps(BUILT | changes).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"\xff",
        _bytes(schema=2),
        _bytes()[:-20],
        _bytes(topics=[{"id": "x"}]),
        _bytes(topics=[3]),
        _bytes(chain=None),
        _bytes(chain={"files": {"a": 3}}),
        _bytes(kernels={"architectures": []}),
    ],
)
def test_a_damaged_one_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "manifest.json"
    path.write_bytes(data)
    with pytest.raises(ValueError, match="install the wheel again") as caught:
        manifest.read(path)
    assert str(path) in str(caught.value)
