"""Builds the overlay wheel: official wheel, series and kernels in, one verified wheel out."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from toolkit.engine.build_manifest import load_manifest
from toolkit.engine.chain import patch_in_memory
from toolkit.engine.overlay import Build, Library, OfficialWheel, Patched, plan_overlay
from toolkit.io.atomic import atomic_file
from toolkit.io.cache import Cache
from toolkit.io.output_folder import prepare_folder
from toolkit.io.wheel_file import WheelFile, audit_record, compare_file, wheel_chunks, write_file
from toolkit.jobs.artifact import obtain
from toolkit.jobs.build_kernels import INSTALLED_PATH, build_kernels, plan_kernels
from toolkit.jobs.toolchain import load_toolchain
from toolkit.model.build import MANIFEST_PATH, BuiltKernels
from toolkit.model.errors import CheckError, UsageError
from toolkit.model.ids import Sha256, blob_id, sha256
from toolkit.model.pin import Pin
from toolkit.model.progress import Progress
from toolkit.model.toolchain import ToolchainOptions
from toolkit.model.topic import Series
from toolkit.model.wheel import Action, WheelPlan

MARGIN = 64 << 20
"""Bytes that a wheel may be larger than the official one."""


@dataclass(frozen=True, slots=True)
class WheelRequest:
    """What to build.

    Attributes:
        project: vLLM's name on the registry.
        series: the topics, already less those that are left out.
        patchsets: folder of the series; it pins the compiler.
        out: folder for the wheel.
        options: compiler and architectures.
        whole: no topic was left out, so that each must find the very files that its patch was made from.
        base_wheel: a copy of the official wheel; it is fetched if left out.
    """

    project: str
    pin: Pin
    series: Series
    patchsets: Path
    out: Path
    options: ToolchainOptions = field(default_factory=ToolchainOptions)
    whole: bool = True
    base_wheel: Path | None = None


@dataclass(frozen=True, slots=True)
class WheelResult:
    """A wheel that was built, or that would be.

    Attributes:
        sha256: of the file; None for a plan.
        size: in bytes; 0 for a plan.
        written: False when the folder held exactly this wheel already.
    """

    path: Path
    plan: WheelPlan
    base: Path
    sha256: Sha256 | None = None
    size: int = 0
    written: bool = False


def plan_wheel(request: WheelRequest, cache: Cache, progress: Progress) -> WheelResult:
    """Say what `build_wheel` would do; fetches the official wheel, compiles and writes nothing.

    Raises:
        CheckError: the official wheel is not what the pin says, or a patch does not apply.
    """
    when = _source_date(request.pin)
    base = _base(request, cache, progress)
    with WheelFile(base) as official:
        plan = _plan(request, official, _patched(request, official), _planned_library(request, cache), when)
    return WheelResult(request.out / plan.filename, plan, base)


def build_wheel(request: WheelRequest, cache: Cache, progress: Progress) -> WheelResult:
    """Build the wheel, verify it, and only then give it its name.

    A wheel in the folder that is the same already is left alone; another one of that name is replaced.

    Raises:
        CheckError: the official wheel is not what the pin says, a patch does not apply, a source does not compile, or
            the written wheel fails its verification.
        EnvironmentUnfitError: no network, no compiler, no room, or a folder that cannot be written.
    """
    when = _source_date(request.pin)
    prepare_folder(request.out, request.pin.wheel.size + MARGIN)
    base = _base(request, cache, progress)
    with WheelFile(base) as official:
        patched = _patched(request, official)
        library = _library(request, cache, progress)
        plan = _plan(request, official, patched, library, when)
        target = request.out / plan.filename
        digest = _same(target, official, plan, when)
        if digest is not None:
            return WheelResult(target, plan, base, digest, target.stat().st_size)
        with atomic_file(target) as partial:
            digest = _write(partial, official, plan, when, progress)
            _verify(partial, official, plan)
        return WheelResult(target, plan, base, digest, target.stat().st_size, written=True)


def _source_date(pin: Pin) -> datetime:
    """Return the time that the wheel's members carry: SOURCE_DATE_EPOCH, else the day of the upstream release."""
    stated = os.environ.get("SOURCE_DATE_EPOCH")
    if stated is None:
        return datetime.fromisoformat(pin.released).replace(tzinfo=UTC)
    try:
        return datetime.fromtimestamp(int(stated), UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(
            f"SOURCE_DATE_EPOCH is {stated!r}",
            cause="it must be a number of seconds since 1970",
            fix="unset it: the wheel then carries the day of the upstream release",
        ) from error


def _base(request: WheelRequest, cache: Cache, progress: Progress) -> Path:
    """Return the official wheel, fetched or given, with its hash checked."""
    artifact = request.pin.wheel
    if request.base_wheel is None:
        return obtain(artifact, request.project, cache, progress)
    with request.base_wheel.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != artifact.sha256:
        raise CheckError(
            f"{request.base_wheel} is not the official wheel of vLLM {request.pin.version}",
            cause=f"its sha256 is {digest}, and {artifact.filename} has {artifact.sha256}",
            fix="leave --base-wheel out to fetch the right one",
        )
    return request.base_wheel


def _library(request: WheelRequest, cache: Cache, progress: Progress) -> Library | None:
    if not any(source.kernels for source in request.series.topics):
        return None
    pins = load_toolchain(request.patchsets)
    built = build_kernels(request.series, pins=pins, cache=cache, progress=progress, options=request.options)
    return Library(built.built, built.data, built.ops) if built else None


def _planned_library(request: WheelRequest, cache: Cache) -> Library | None:
    """Return the library that would be compiled, without its bytes."""
    if not any(source.kernels for source in request.series.topics):
        return None
    pins = load_toolchain(request.patchsets)
    plan = plan_kernels(request.series, pins=pins, cache=cache, options=request.options)
    if plan is None:
        return None
    return Library(BuiltKernels(INSTALLED_PATH, sha256(b""), 0, plan.code, "", pins.stable_abi), b"", plan.ops)


def _patched(request: WheelRequest, official: WheelFile) -> Patched:
    members = official.members
    applied = patch_in_memory(
        request.series, lambda path: official.read(path) if path in members else None, exact=request.whole
    )
    return Patched(request.series, applied.outputs, applied.chain)


def _plan(
    request: WheelRequest, official: WheelFile, patched: Patched, library: Library | None, when: datetime
) -> WheelPlan:
    build = Build(request.project, request.pin, request.options.arches, f"hqtool {version('hqtool')}", when)
    wheel = OfficialWheel(request.pin.wheel.filename, official.members, official.read)
    return plan_overlay(wheel, patched, library, build)


def _same(target: Path, official: WheelFile, plan: WheelPlan, when: datetime) -> Sha256 | None:
    """Return the target's hash if it holds exactly the planned wheel."""
    if not target.is_file():
        return None
    same, digest = compare_file(target, wheel_chunks(official, plan.written, when))
    return digest if same else None


def _write(partial: Path, official: WheelFile, plan: WheelPlan, when: datetime, progress: Progress) -> Sha256:
    progress.say(f"writing {plan.filename}")
    task = progress.task("writing", official.path.stat().st_size)
    try:
        return write_file(partial, wheel_chunks(official, plan.written, when), task)
    finally:
        task.finish()


def _verify(partial: Path, official: WheelFile, plan: WheelPlan) -> None:
    """Read the wheel back: RECORD by another implementation, every changed member, the checksums of the others, chain.

    The others need no more: their bytes were copied from a file whose hash was checked.
    """
    problems = audit_record(partial, plan.filename)
    with WheelFile(partial) as wheel:
        problems += _unlike(wheel, official, plan)
        manifest = load_manifest(wheel.read(MANIFEST_PATH))
        for file in manifest.chain.files:
            found = blob_id(wheel.read(file.path)) if file.path in wheel.members else None
            if found != file.ids[-1]:
                problems.append(f"{file.path} is not as the chain says")
    if problems:
        raise CheckError(
            f"{plan.filename} failed its verification and was not kept",
            cause="what was read back is not what was written: a disk or memory that errs, or a fault of hqtool",
            fix="run the same command again; if it fails again, report it with this message",
            details=problems,
        )


def _unlike(wheel: WheelFile, official: WheelFile, plan: WheelPlan) -> Iterator[str]:
    if list(wheel.members) != [member.name for member in plan.written]:
        yield "the members are not the planned ones"
        return
    for member in plan.written:
        if member.action is not Action.KEEP:
            same = wheel.read(member.name) == member.data
        else:
            copy, source = wheel.info(member.name), official.info(member.source)
            same = (copy.CRC, copy.file_size, copy.compress_size) == (
                source.CRC,
                source.file_size,
                source.compress_size,
            )
        if not same:
            yield f"{member.name} differs from what was planned"
