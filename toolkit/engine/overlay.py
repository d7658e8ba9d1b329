"""The plan of an overlay wheel: the official wheel's members, with the series' files and the build's own in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from toolkit.engine import metadata
from toolkit.engine.build_manifest import dump_manifest, make_manifest, wheel_version
from toolkit.engine.explain import render_notice
from toolkit.engine.record import RecordEntry, parse_record, render_record
from toolkit.engine.sbom import SBOM_NAME, make_sbom
from toolkit.model.build import MANIFEST_PATH, BuildManifest, BuiltKernels
from toolkit.model.chain import Chain
from toolkit.model.errors import CheckError
from toolkit.model.ids import TopicId, sha256
from toolkit.model.pin import Pin
from toolkit.model.topic import Series
from toolkit.model.wheel import Action, PlannedMember, WheelPlan

VERSION_MODULE = "vllm/_version.py"
GUARD_MODULE = "vllm/hq/guard.py"
SIGNATURES = ("RECORD.jws", "RECORD.p7s")


@dataclass(frozen=True, slots=True)
class OfficialWheel:
    """What the plan needs to know of the official wheel.

    Attributes:
        members: name -> whether it is executable, in the archive's order, folders left out.
        read: returns one member's bytes.
    """

    filename: str
    members: Mapping[str, bool]
    read: Callable[[str], bytes]


@dataclass(frozen=True, slots=True)
class Library:
    """The compiled kernels: the facts, the file's bytes, and which topic defines which operators."""

    built: BuiltKernels
    data: bytes
    ops: Mapping[TopicId, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Patched:
    """The applied series: path -> bytes of each file that it changes or adds (None: deleted), and the chain."""

    series: Series
    outputs: Mapping[str, bytes | None]
    chain: Chain


@dataclass(frozen=True, slots=True)
class Build:
    """The circumstances of a build.

    Attributes:
        project: name on the registry.
        architectures: compute capabilities, ``8.6``.
        tool: what builds, ``hqtool 0.1.0``.
        when: time of the upstream release.
    """

    project: str
    pin: Pin
    architectures: tuple[str, ...]
    tool: str
    when: datetime


def plan_overlay(official: OfficialWheel, patched: Patched, library: Library | None, build: Build) -> WheelPlan:
    """Return the members of the patched wheel.

    Members keep upstream's order, changed ones in place; added ones follow, then dist-info, RECORD last.

    Raises:
        CheckError: the official wheel is not of the expected form, or lacks something that is to be edited.
    """
    version = wheel_version(build.pin, patched.series.revision, build.architectures)
    identity = metadata.Identity(build.project, build.pin.version, version)
    folders = _Folders.of(identity)
    module = metadata.edit_version_module(_read(official, VERSION_MODULE), identity)
    manifest = make_manifest(
        pin=build.pin,
        series=patched.series,
        chain=patched.chain,
        base=build.pin.wheel.sha256,
        version=version,
        generated={VERSION_MODULE: sha256(module)},
        kernels=library.built if library else None,
        tool=build.tool,
        ops=library.ops if library else {},
    )
    changed: dict[str, bytes | None] = {
        **patched.outputs,
        VERSION_MODULE: module,
        MANIFEST_PATH: dump_manifest(manifest),
        **{f"{folders.old}/{name}": data for name, data in _dist_info(official, identity, manifest, patched, build)},
    }
    if library is not None:
        changed[library.built.path] = library.data
    members = _members(official, changed, folders, patched.chain)
    written = [member for member in members if member.action is not Action.REMOVE]
    removed = [member for member in members if member.action is Action.REMOVE]
    record = _record(_read(official, f"{folders.old}/RECORD"), written, folders)
    return WheelPlan(_filename(official.filename, identity), version, (*written, record, *removed))


@dataclass(frozen=True, slots=True)
class _Folders:
    """The dist-info folder's name in the official wheel and in ours."""

    old: str
    new: str

    @classmethod
    def of(cls, identity: metadata.Identity) -> _Folders:
        name = identity.project.replace("-", "_")
        return cls(f"{name}-{identity.pin}.dist-info", f"{name}-{identity.version}.dist-info")

    def renamed(self, path: str) -> str:
        """Return where a member of the official wheel lies in ours; the data folder carries the version too."""
        for suffix in (".dist-info", ".data"):
            old = self.old.removesuffix(".dist-info") + suffix + "/"
            if path.startswith(old):
                return self.new.removesuffix(".dist-info") + suffix + "/" + path.removeprefix(old)
        return path


def _dist_info(
    official: OfficialWheel, identity: metadata.Identity, manifest: BuildManifest, patched: Patched, build: Build
) -> Iterator[tuple[str, bytes | None]]:
    """Yield the files of the dist-info folder that differ; None for those that go."""
    folder = _Folders.of(identity).old
    text = _read(official, f"{folder}/METADATA")
    topics = [f"{topic.id}: {topic.title}" for topic in manifest.topics]
    yield "METADATA", metadata.edit_metadata(text, identity, topics)
    yield "WHEEL", metadata.edit_wheel(_read(official, f"{folder}/WHEEL"), _tags(official.filename), build.tool)
    if patched.outputs.get(GUARD_MODULE) is not None:
        path = f"{folder}/entry_points.txt"
        yield "entry_points.txt", metadata.add_guard(official.read(path) if path in official.members else b"")
    yield f"licenses/{metadata.NOTICE}", render_notice(manifest, identity.statement)
    licence = metadata.licence_of(text)
    yield (
        SBOM_NAME,
        make_sbom(
            manifest,
            patched.series,
            project=identity.project,
            licence=licence,
            base=build.pin.wheel,
            when=build.when,
        ),
    )
    for name in SIGNATURES:  # they sign the RECORD that they came with
        if f"{folder}/{name}" in official.members:
            yield name, None


def _members(
    official: OfficialWheel, changed: Mapping[str, bytes | None], folders: _Folders, chain: Chain
) -> list[PlannedMember]:
    """Return all members but RECORD, those of dist-info last."""
    members = []
    for source, executable in official.members.items():
        name, owner, data = folders.renamed(source), chain.topic_of(source) or "", changed.get(source)
        if source == f"{folders.old}/RECORD":
            continue
        if source not in changed:
            members.append(PlannedMember(name, Action.KEEP, source, executable))
        elif data is None:
            members.append(PlannedMember(name, Action.REMOVE, source, executable, owner=owner))
        else:
            members.append(PlannedMember(name, Action.REPLACE, source, executable, data, owner))
    for path, data in sorted(changed.items()):
        if path not in official.members and data is not None:
            name, owner = folders.renamed(path), chain.topic_of(path) or ""
            members.append(PlannedMember(name, Action.ADD, "", path.endswith(".so"), data, owner))
    return sorted(members, key=lambda member: member.name.startswith(f"{folders.new}/"))


def _record(old: bytes, members: list[PlannedMember], folders: _Folders) -> PlannedMember:
    """Return RECORD: upstream's lines for what is kept, new ones for the rest."""
    known = parse_record(old)
    entries = []
    for member in members:
        if member.action is not Action.KEEP:
            entries.append(RecordEntry.of(member.name, member.data))
            continue
        if member.source not in known:
            raise _unexpected(f"the official wheel's RECORD does not list {member.source}")
        entries.append(replace(known[member.source], path=member.name))
    path = f"{folders.new}/RECORD"
    entries.append(RecordEntry(path, "", ""))
    return PlannedMember(path, Action.REPLACE, f"{folders.old}/RECORD", data=render_record(entries))


def _filename(official: str, identity: metadata.Identity) -> str:
    tags = official.removesuffix(".whl").split("-")[-3:]
    return "-".join([identity.project.replace("-", "_"), identity.version, *tags]) + ".whl"


def _tags(filename: str) -> list[str]:
    try:
        return [str(tag) for tag in parse_wheel_filename(filename)[3]]
    except InvalidWheelFilename as error:
        raise _unexpected(f"{filename} is no name of a wheel") from error


def _read(official: OfficialWheel, path: str) -> bytes:
    if path not in official.members:
        raise _unexpected(f"the official wheel has no {path}")
    return official.read(path)


def _unexpected(what: str) -> CheckError:
    return CheckError(
        what,
        cause="it is of another form or another version than expected",
        fix="check that the wheel is the one that patchsets/pins.toml names",
    )
