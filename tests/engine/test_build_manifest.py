"""The build manifest: what is written can be read again, and nothing else can."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from toolkit.engine.build_manifest import dump_manifest, load_manifest, make_manifest, wheel_version
from toolkit.model.build import BuildManifest, BuiltKernels
from toolkit.model.chain import Chain, FileChain
from toolkit.model.errors import CheckError, UsageError
from toolkit.model.ids import TopicId, blob_id, sha256
from toolkit.model.pin import Artifact, Pin
from toolkit.model.topic import Kind, Knob, Numbers, Series, Topic, TopicSource, Upstream, UpstreamState

PIN = Pin(
    version="0.33.0",
    tag="v0.33.0",
    commit="4ba787ec9",
    released="2026-11-20",
    torch="2.14.0",
    triton="3.8.0",
    sdist=Artifact("vllm-0.33.0.tar.gz", sha256(b"sdist"), 5),
    wheel=Artifact("vllm-0.33.0-cp38-abi3-manylinux_2_28_x86_64.whl", sha256(b"wheel"), 5),
)
KERNELS = BuiltKernels("vllm/hq/_hq_C.abi3.so", sha256(b"so"), 2, ("sm_86", "compute_86"), "13.1.80", "2.11")


def topic(name: str, kind: Kind = Kind.MEMORY) -> TopicSource:
    """Return a topic without a patch, under that name."""
    numbers = Numbers(lossless=False, error="at most 1 ulp")
    knob = Knob("HQ_X", "1", ("0", "1"), "Switches it.")
    manifest = Topic(
        TopicId(name), name.title(), kind, "what", "why", Upstream(UpstreamState.PENDING), numbers, "p.py", (), (knob,)
    )
    return TopicSource(manifest, b"")


def manifest(kernels: BuiltKernels | None = KERNELS) -> BuildManifest:
    """Return a manifest of two topics that change three files between them."""
    one, two, three = (blob_id(data) for data in (b"1", b"2", b"3"))
    chain = Chain(
        (TopicId("first"), TopicId("second")),
        (
            FileChain("vllm/z.py", (one, two, three)),
            FileChain("vllm/hq/new.py", (None, one, one)),
            FileChain("vllm/gone.py", (one, one, None)),
        ),
    )
    return make_manifest(
        pin=PIN,
        series=Series("0.33.0", 1, (topic("first"), topic("second"))),
        chain=chain,
        base=PIN.wheel.sha256,
        version="0.33.0+hq1.sm86",
        generated={"vllm/_version.py": sha256(b"version")},
        kernels=kernels,
        tool="hqtool 0.1.0",
        ops={TopicId("second"): ("hq::op",)},
    )


def test_topics_name_the_files_that_they_changed() -> None:
    first, second = manifest().topics
    assert first.files == ("vllm/hq/new.py", "vllm/z.py")
    assert second.files == ("vllm/gone.py", "vllm/z.py")
    assert (first.ops, second.ops) == ((), ("hq::op",))
    assert first.knobs == {"HQ_X": "1"}


@pytest.mark.parametrize("kernels", [KERNELS, None])
def test_round_trip(kernels: BuiltKernels | None) -> None:
    made = manifest(kernels)
    data = dump_manifest(made)
    assert load_manifest(data) == made
    assert dump_manifest(load_manifest(data)) == data
    assert data.endswith(b"}\n")


def test_keys_are_those_that_the_runtime_reads() -> None:
    value = json.loads(dump_manifest(manifest()))
    assert value["schema"] == 1
    assert [item["id"] for item in value["topics"]] == ["first", "second"]
    assert value["chain"]["topics"] == ["first", "second"]
    assert value["chain"]["files"]["vllm/hq/new.py"][0] is None
    assert value["kernels"]["sha256"] == sha256(b"so")
    assert list(value) == sorted(value)


def test_order_of_the_input_does_not_show() -> None:
    made = manifest()
    turned = replace(made, generated=dict(reversed(made.generated.items())))
    assert dump_manifest(turned) == dump_manifest(made)


def _without(key: str) -> Any:
    def change(value: dict[str, Any]) -> None:
        del value[key]

    return change


def _with(path: str, new: Any) -> Any:
    def change(value: Any) -> None:
        *parents, last = path.split("/")
        for parent in parents:
            value = value[int(parent) if parent.isdigit() else parent]
        value[last] = new

    return change


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        *((_without(key), f"'{key}' is missing") for key in ("pin", "base", "chain", "kernels", "topics", "generated")),
        (_without("schema"), "schema is None"),
        (_with("schema", 2), "schema is 2"),
        (_with("more", 1), "does not know: more"),
        (_with("revision", True), "'revision' is True"),
        (_with("base", "12"), "no sha256"),
        (_with("topics/0/lossless", 1), "'lossless' is 1"),
        (_with("topics/0/extra", 1), "does not know: extra"),
        (_with("topics/0/files", [1]), "not a list of strings"),
        (_with("topics/1/knobs", {"HQ_X": 1}), "'HQ_X' is 1"),
        (_with("chain/topics", ["first"]), "one id before the topics"),
        (_with("chain/files", {"a.py": ["x", None, None]}), "no blob id"),
        (_with("kernels/size", "2"), "'size' is '2'"),
        (_with("generated", {"a.py": None}), "'a.py' is None"),
    ],
)
def test_a_manifest_that_is_wrong_is_refused(change: Any, cause: str) -> None:
    value = json.loads(dump_manifest(manifest()))
    change(value)
    with pytest.raises(CheckError) as caught:
        load_manifest(json.dumps(value).encode())
    assert cause in caught.value.cause
    assert caught.value.fix


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b"null"])
def test_bytes_that_are_no_manifest_are_refused(data: bytes) -> None:
    with pytest.raises(CheckError):
        load_manifest(data)


@given(st.integers(1, 9999), st.lists(st.sampled_from(["7.5", "8.6", "8.9", "12.0"]), min_size=1, unique=True))
def test_every_version_is_normal_and_newer_than_the_pin(revision: int, arches: list[str]) -> None:
    version = wheel_version(PIN, revision, arches)
    assert str(Version(version)) == version
    assert Version(version) > Version(PIN.version)


def test_version_of_the_default_build() -> None:
    assert wheel_version(PIN, 1) == "0.33.0+hq1.sm86"


@pytest.mark.parametrize(
    ("pin", "revision", "arches"),
    [("0.33.0", 0, ("8.6",)), ("0.33.0-rc1", 1, ("8.6",)), ("main", 1, ("8.6",)), ("0.33.0", 1, ("8.6 ",))],
)
def test_a_version_that_is_not_normal_is_refused(pin: str, revision: int, arches: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        wheel_version(replace(PIN, version=pin), revision, arches)
