"""The bill of materials: valid CycloneDX, without chance in it, and enough to show every hook."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.wheel_fixtures import BUILT, PATCH, tiny_series, topic_source
from toolkit.engine.build_manifest import make_manifest
from toolkit.engine.sbom import make_sbom, read_diffs
from toolkit.model.build import BuildManifest, BuiltKernels
from toolkit.model.chain import Chain
from toolkit.model.errors import CheckError
from toolkit.model.ids import sha256
from toolkit.model.pin import Artifact, Pin
from toolkit.model.topic import Kind, Series

WHEN = datetime(2026, 11, 2, 3, 4, 5, tzinfo=UTC)
BASE = Artifact("vllm-0.33.0-cp38-abi3-manylinux_2_28_x86_64.whl", sha256(b"wheel"), 5)
PIN = Pin("0.33.0", "v0.33.0", "4ba787ec9", "2026-11-02", "2.14.0", "3.8.0", BASE, BASE)
KERNELS = BuiltKernels("vllm/hq/_hq_C.abi3.so", sha256(b"so"), 2, ("sm_86",), "13.1.80", "2.11")


def manifest(series: Series, kernels: BuiltKernels | None = KERNELS) -> BuildManifest:
    """Return a manifest of a series that changes no file."""
    return make_manifest(
        pin=PIN,
        series=series,
        chain=Chain(series.ids, ()),
        base=BASE.sha256,
        version=BUILT,
        generated={},
        kernels=kernels,
        tool="hqtool 0.1.0",
    )


def sbom(series: Series, kernels: BuiltKernels | None = KERNELS, when: datetime = WHEN) -> bytes:
    """Return the bill of materials of that series."""
    built = manifest(series, kernels)
    return make_sbom(built, series, project="vllm", licence="Apache-2.0", base=BASE, when=when)


@pytest.mark.parametrize("kernels", [KERNELS, None])
@pytest.mark.parametrize("series", [tiny_series(), Series("0.33.0", 1, ())])
def test_the_schema_accepts_it(series: Series, kernels: BuiltKernels | None) -> None:
    text = sbom(series, kernels).decode()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_it_names_the_official_wheel_and_the_tools() -> None:
    document: dict[str, Any] = json.loads(sbom(tiny_series()))
    component = document["metadata"]["component"]
    assert component["purl"] == "pkg:pypi/vllm@0.33.0%2Bhq1.sm86"
    (ancestor,) = component["pedigree"]["ancestors"]
    assert ancestor["purl"] == "pkg:pypi/vllm@0.33.0"
    assert ancestor["hashes"] == [{"alg": "SHA-256", "content": sha256(b"wheel")}]
    tools = [(tool["name"], tool["version"]) for tool in document["metadata"]["tools"]["components"]]
    assert tools == [("hqtool", "0.1.0"), ("nvcc", "13.1.80")]
    (library,) = document["components"]
    assert library["hashes"][0]["content"] == sha256(b"so")
    assert document["metadata"]["timestamp"] == "2026-11-02T03:04:05Z"


def test_each_topic_is_a_patch_of_its_kind() -> None:
    backport = topic_source("port", PATCH)
    backport = replace(backport, topic=replace(backport.topic, kind=Kind.BACKPORT))
    series = Series("0.33.0", 1, (*tiny_series().topics, backport))
    patches = json.loads(sbom(series))["metadata"]["component"]["pedigree"]["patches"]
    assert [patch["type"] for patch in patches] == ["unofficial", "unofficial", "backport"]
    assert read_diffs(sbom(series)) == (b"", PATCH, PATCH)


def test_bytes_that_are_no_text_survive() -> None:
    patch = bytes(range(256))
    assert read_diffs(sbom(Series("0.33.0", 1, (topic_source("odd", patch),)))) == (patch,)


def test_serial_number_follows_the_contents() -> None:
    def serial(data: bytes) -> str:
        found: str = json.loads(data)["serialNumber"]
        assert uuid.UUID(found).version == 5
        return found

    assert sbom(tiny_series()) == sbom(tiny_series())
    assert sbom(tiny_series(), when=WHEN.astimezone(timezone(timedelta(hours=-5)))) == sbom(tiny_series())
    assert serial(sbom(tiny_series())) != serial(sbom(Series("0.33.0", 1, tiny_series().topics[:1])))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"metadata": {"component": {"pedigree": {"patches": [{"diff": {"text": {"content": "%"}}}]}}}}',
        b'{"metadata": {"component": {"pedigree": {"patches": [1]}}}}',
    ],
)
def test_another_document_is_refused(data: bytes) -> None:
    with pytest.raises(CheckError, match="bill of materials"):
        read_diffs(data)
