"""The real thing: the pinned official wheel and the shipped series give a wheel that installs and holds what it says.

The official wheel comes through hqtool's own cache (HQTOOL_CACHE, else the user's).
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from elftools.elf.elffile import ELFFile
from installer.sources import WheelFile as InstallerWheel
from packaging.metadata import Metadata

import patchsets
from toolkit.cli.main import run
from toolkit.engine.build_manifest import load_manifest
from toolkit.io.cache import Cache
from toolkit.jobs.build_wheel import WheelRequest, WheelResult, build_wheel
from toolkit.jobs.series import load_pins, load_series
from toolkit.model.ids import blob_id
from toolkit.model.progress import Silent
from toolkit.model.wheel import Action

SHIPPED = Path(next(iter(patchsets.__path__)))
PINS = load_pins(SHIPPED)
LIBRARY = "vllm/hq/_hq_C.abi3.so"


def cache() -> Cache:
    """Return the cache that the command line would use."""
    return Cache(Path(os.environ["HQTOOL_CACHE"])) if "HQTOOL_CACHE" in os.environ else Cache.default()


def order(pin: str, out: Path, *, kernels: bool) -> WheelRequest:
    """Return a request for the shipped series, perhaps without its kernels."""
    series = load_series(SHIPPED, pin)
    if not kernels:
        series = replace(series, topics=tuple(replace(source, kernels={}) for source in series.topics))
    return WheelRequest(project=PINS.project, pin=PINS.get(pin), series=series, patchsets=SHIPPED, out=out)


@pytest.fixture(scope="module", params=[pin.version for pin in PINS.pins])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> WheelResult:
    """The wheel of each pin, without kernels."""
    out = tmp_path_factory.mktemp("wheels")
    return build_wheel(order(request.param, out, kernels=False), cache(), Silent())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> WheelResult:
    """The default pin's wheel with everything in it."""
    return build_wheel(order(PINS.default, tmp_path_factory.mktemp("whole"), kernels=True), cache(), Silent())


@pytest.mark.network
def test_second_readers_accept_it(built: WheelResult) -> None:
    with InstallerWheel.open(built.path) as wheel:
        wheel.validate_record(validate_contents=True)
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", built.path], check=True, capture_output=True)


@pytest.mark.network
def test_only_the_planned_members_differ(built: WheelResult) -> None:
    def members(path: Path) -> dict[str, tuple[int, int]]:
        with zipfile.ZipFile(path) as archive:
            return {
                re.sub(r"^vllm-[^/]*\.dist-info/", "INFO/", info.filename): (info.CRC, info.file_size)
                for info in archive.infolist()
            }

    old, new = members(built.base), members(built.path)
    different = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    planned = {re.sub(r"^vllm-[^/]*\.dist-info/", "INFO/", member.name) for member in built.plan.changed}
    assert different == planned
    assert built.path.stat().st_size < built.base.stat().st_size + (4 << 20)


@pytest.mark.network
def test_what_it_says_of_itself(built: WheelResult) -> None:
    with zipfile.ZipFile(built.path) as archive:
        manifest = load_manifest(archive.read("vllm/hq/manifest.json"))
        info = f"vllm-{manifest.version}.dist-info"
        sbom = archive.read(f"{info}/sboms/hqtool.cdx.json").decode()
        metadata = Metadata.from_email(archive.read(f"{info}/METADATA"))
        for file in manifest.chain.files:
            assert file.ids[-1] == blob_id(archive.read(file.path))
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(sbom) is None
    assert f"torch=={manifest.torch}" in [str(requirement) for requirement in metadata.requires_dist or ()]
    assert metadata.license_files == ["LICENSE", "hqtool-modifications.txt"]


@pytest.mark.network
def test_a_second_build_is_the_same(built: WheelResult, tmp_path: Path) -> None:
    again = build_wheel(order(built.plan.version.partition("+")[0], tmp_path, kernels=False), cache(), Silent())
    assert again.sha256 == built.sha256


def needed(archive: zipfile.ZipFile, name: str) -> set[str]:
    """Return the shared libraries that a library in the wheel loads."""
    dynamic = ELFFile(io.BytesIO(archive.read(name))).get_section_by_name(".dynamic")
    return {tag.needed for tag in dynamic.iter_tags("DT_NEEDED")}


@pytest.mark.network
@pytest.mark.kernel
def test_the_kernels_keep_the_platform_tag(whole: WheelResult) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", whole.path], capture_output=True, text=True, check=True
    )
    assert 'the platform tag to "manylinux_2_28_x86_64"' in " ".join(done.stdout.split())
    with zipfile.ZipFile(whole.base) as official, zipfile.ZipFile(whole.path) as archive:
        upstream = {
            library for name in official.namelist() if name.endswith(".so") for library in needed(official, name)
        }
        assert needed(archive, LIBRARY) <= upstream


@pytest.mark.network
@pytest.mark.kernel
def test_the_whole_wheel_installs_and_checks(
    whole: WheelResult, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = next(member for member in whole.plan.written if member.name == LIBRARY)
    assert (library.action, library.data[:4]) == (Action.ADD, b"\x7fELF")
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([*pip, str(whole.path)], check=True)
    for target in (whole.path, site):
        assert run(["check", str(target), "--full"]) == 0
        capsys.readouterr()
        assert run(["wheel", "explain", str(target), "--json"]) == 0
        data = json.loads(capsys.readouterr().out)["data"]
        assert [topic["id"] for topic in data["topics"]] == list(load_series(SHIPPED, PINS.default).ids)
        assert data["kernels"]["size"] == len(library.data)
