"""The plan of an overlay wheel: which members stay, change, come and go, and in which order."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from email.parser import BytesParser

import pytest

from tests.wheel_fixtures import (
    BUILT,
    BUILT_INFO,
    BUILT_NAME,
    EXECUTABLE,
    INFO,
    NAME,
    PACKAGE,
    PATCHED_MAIN,
    record_of,
    tiny_series,
)
from toolkit.engine.overlay import Build, Library, OfficialWheel, Patched, plan_overlay
from toolkit.engine.record import RecordEntry, parse_record
from toolkit.model.build import BuiltKernels
from toolkit.model.chain import Chain, FileChain
from toolkit.model.errors import CheckError
from toolkit.model.ids import TopicId, blob_id, sha256
from toolkit.model.pin import Artifact, Pin
from toolkit.model.topic import Series
from toolkit.model.wheel import Action, PlannedMember, WheelPlan

WHEEL = Artifact(NAME, sha256(b"wheel"), 5)
PIN = Pin("0.33.0", "v0.33.0", "4ba787ec9", "2026-11-02", "2.14.0", "3.8.0", WHEEL, WHEEL)
BUILD = Build("vllm", PIN, ("8.6",), "hqtool 0.1.0", datetime(2026, 11, 2, tzinfo=UTC))
SERIES = tiny_series()
GUARD = SERIES.topics[0].files["vllm/hq/guard.py"]
LIBRARY = Library(
    BuiltKernels("vllm/hq/_hq_C.abi3.so", sha256(b"so"), 2, ("sm_86",), "13.1", "2.11"),
    b"so",
    {TopicId("hook"): ("hq::x",)},
)


def patched() -> Patched:
    """Return the tiny series applied by hand: guard and package are new, main changes, empty goes."""
    main = PACKAGE["vllm/main.py"]
    ids = (blob_id(b""), blob_id(GUARD), blob_id(main), blob_id(PATCHED_MAIN))
    chain = Chain(
        (TopicId("runtime"), TopicId("hook")),
        (
            FileChain("vllm/empty.py", (ids[0], ids[0], None)),
            FileChain("vllm/hq/__init__.py", (None, ids[0], ids[0])),
            FileChain("vllm/hq/guard.py", (None, ids[1], ids[1])),
            FileChain("vllm/main.py", (ids[2], ids[2], ids[3])),
        ),
    )
    outputs = {
        "vllm/empty.py": None,
        "vllm/hq/__init__.py": b"",
        "vllm/hq/guard.py": GUARD,
        "vllm/main.py": PATCHED_MAIN,
    }
    return Patched(SERIES, outputs, chain)


def official(files: dict[str, bytes] | None = None) -> OfficialWheel:
    """Return an official wheel of these files, with a RECORD unless they bring one."""
    files = dict(PACKAGE if files is None else files)
    files.setdefault(f"{INFO}/RECORD", record_of(files))
    return OfficialWheel(NAME, {name: name in EXECUTABLE for name in files}, files.__getitem__)


def plan(
    wheel: OfficialWheel | None = None, series: Patched | None = None, library: Library | None = LIBRARY
) -> WheelPlan:
    """Return the plan, of the tiny wheel and series unless others are given."""
    return plan_overlay(wheel or official(), series or patched(), library, BUILD)


def member(made: WheelPlan, name: str) -> PlannedMember:
    """Return the member of that name."""
    (found,) = [item for item in made.members if item.name == name]
    return found


def test_name_and_order() -> None:
    made = plan()
    assert made.filename == BUILT_NAME
    assert made.version == BUILT
    assert [item.name.replace(BUILT_INFO, "INFO") for item in made.written] == [
        *(name for name in PACKAGE if not name.startswith(INFO) and name != "vllm/empty.py"),
        "vllm/hq/__init__.py",
        "vllm/hq/_hq_C.abi3.so",
        "vllm/hq/guard.py",
        "vllm/hq/manifest.json",
        "INFO/licenses/LICENSE",
        "INFO/METADATA",
        "INFO/WHEEL",
        "INFO/entry_points.txt",
        "INFO/top_level.txt",
        "INFO/licenses/hqtool-modifications.txt",
        "INFO/sboms/hqtool.cdx.json",
        "INFO/RECORD",
    ]


def test_actions_and_owners() -> None:
    made = plan()
    found = {item.name: (item.action, item.owner) for item in made.members}
    assert found["vllm/__init__.py"] == (Action.KEEP, "")
    assert found["vllm/main.py"] == (Action.REPLACE, "hook")
    assert found["vllm/empty.py"] == (Action.REMOVE, "hook")
    assert found["vllm/hq/guard.py"] == (Action.ADD, "runtime")
    assert found["vllm/_version.py"] == (Action.REPLACE, "")
    assert found[f"{BUILT_INFO}/licenses/LICENSE"] == (Action.KEEP, "")
    assert member(made, "vllm/main.py").data == PATCHED_MAIN
    assert member(made, "vllm/hq/_hq_C.abi3.so").executable
    assert member(made, "vllm/run.sh").executable
    assert not member(made, "vllm/hq/guard.py").executable


def test_record_lists_every_member_with_its_hash() -> None:
    made = plan()
    record = parse_record(made.written[-1].data)
    assert list(record) == [item.name for item in made.written]
    for item in made.written[:-1]:
        data = item.data if item.action is not Action.KEEP else PACKAGE[item.source]
        assert record[item.name] == RecordEntry.of(item.name, data)
    assert record[f"{BUILT_INFO}/RECORD"] == RecordEntry(f"{BUILT_INFO}/RECORD", "", "")


def test_what_the_wheel_says_of_itself() -> None:
    made = plan()
    manifest = json.loads(member(made, "vllm/hq/manifest.json").data)
    assert manifest["version"] == BUILT
    assert manifest["base"] == WHEEL.sha256
    assert manifest["generated"] == {"vllm/_version.py": sha256(member(made, "vllm/_version.py").data)}
    assert manifest["topics"][1]["ops"] == ["hq::x"]
    assert b"hq_guard" in member(made, f"{BUILT_INFO}/entry_points.txt").data
    assert b"manylinux_2_28" in member(made, f"{BUILT_INFO}/WHEEL").data
    metadata = BytesParser().parsebytes(member(made, f"{BUILT_INFO}/METADATA").data)
    for name in metadata.get_all("License-File", []):
        assert member(made, f"{BUILT_INFO}/licenses/{name}")


def test_notice_names_every_file_that_a_topic_changes() -> None:
    notice = member(plan(), f"{BUILT_INFO}/licenses/hqtool-modifications.txt").data.decode()
    assert notice.startswith("Modified build of vLLM 0.33.0")
    runtime, hook, build = notice.split("\n\n")[1:]
    assert runtime.splitlines()[1:] == ["  create  vllm/hq/__init__.py", "  create  vllm/hq/guard.py"]
    assert hook.splitlines()[1:] == ["  delete  vllm/empty.py", "  modify  vllm/main.py"]
    assert build.splitlines()[1:] == ["  modify  vllm/_version.py", "  create  vllm/hq/_hq_C.abi3.so"]


def test_without_kernels_and_without_guard() -> None:
    series = Series("0.33.0", 1, SERIES.topics[1:])
    main = FileChain("vllm/main.py", (blob_id(PACKAGE["vllm/main.py"]), blob_id(PATCHED_MAIN)))
    applied = Patched(series, {"vllm/main.py": PATCHED_MAIN}, Chain(series.ids, (main,)))
    made = plan(series=applied, library=None)
    added = {item.name for item in made.members if item.action is Action.ADD}
    assert added == {
        "vllm/hq/manifest.json",
        f"{BUILT_INFO}/licenses/hqtool-modifications.txt",
        f"{BUILT_INFO}/sboms/hqtool.cdx.json",
    }
    assert member(made, f"{BUILT_INFO}/entry_points.txt").action is Action.KEEP


def test_a_wheel_without_entry_points_gets_the_guard() -> None:
    files = {name: data for name, data in PACKAGE.items() if not name.endswith("entry_points.txt")}
    entry = member(plan(official(files)), f"{BUILT_INFO}/entry_points.txt")
    assert entry.action is Action.ADD
    assert entry.data == b"[vllm.general_plugins]\nhq_guard = vllm.hq.guard:register\n"


def test_data_folder_is_renamed_and_signatures_go() -> None:
    extra = {"vllm-0.33.0.data/scripts/x": b"x", f"{INFO}/RECORD.jws": b"{}"}
    made = plan(official(PACKAGE | extra))
    assert member(made, f"vllm-{BUILT}.data/scripts/x").action is Action.KEEP
    assert member(made, f"{BUILT_INFO}/RECORD.jws").action is Action.REMOVE
    assert f"{BUILT_INFO}/RECORD.jws" not in parse_record(made.written[-1].data)


@pytest.mark.parametrize("missing", ["vllm/_version.py", f"{INFO}/METADATA", f"{INFO}/WHEEL"])
def test_a_wheel_that_lacks_what_is_edited_is_refused(missing: str) -> None:
    files = {name: data for name, data in PACKAGE.items() if name != missing}
    with pytest.raises(CheckError, match=missing.rpartition("/")[2]):
        plan(official(files))


def test_a_member_that_record_does_not_list_is_refused() -> None:
    record = record_of({name: data for name, data in PACKAGE.items() if name != "vllm/run.sh"})
    with pytest.raises(CheckError, match=r"does not list vllm/run\.sh"):
        plan(official(PACKAGE | {f"{INFO}/RECORD": record}))


def test_a_wheel_of_another_version_is_refused() -> None:
    build = replace(BUILD, pin=replace(PIN, version="0.32.0"))
    with pytest.raises(CheckError):
        plan_overlay(official(), patched(), LIBRARY, build)
