"""What a target says of itself: form, RECORD, manifest, version, and so the release to hold it against."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from toolkit.engine.build_manifest import load_manifest
from toolkit.engine.examination import TargetKind
from toolkit.engine.record import RecordEntry, parse_record
from toolkit.io.checkable import Checkable
from toolkit.model.build import MANIFEST_PATH, BuildManifest
from toolkit.model.errors import CheckError, UsageError
from toolkit.model.finding import Finding, Severity
from toolkit.model.pin import Pin, Pins

_VERSION_MODULE = "vllm/_version.py"
_STATED = re.compile(r"""^(?:__version__|version)\b[^=\n]*=(?:\s*version\s*=)?\s*['"]([^'"\n]+)['"]""", re.MULTILINE)
_METADATA_VERSION = re.compile(r"^Version: *(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Subject:
    """A target as it presents itself.

    Attributes:
        record: None for a source tree.
        manifest: None when hqtool did not build it.
        version: as stated, '' when nothing is.
        pin: version of the release to hold it against.
        release: that release; None when only the manifest knows it.
        official: False for another distribution of vLLM, whose modules may differ from the release's.
        findings: about the target's own statements.
    """

    kind: TargetKind
    record: Mapping[str, RecordEntry] | None
    manifest: BuildManifest | None
    version: str
    pin: str
    release: Pin | None
    official: bool
    findings: tuple[Finding, ...]


def identify(tree: Checkable, pins: Pins, wanted: str | None) -> Subject:
    """Read what a target says of itself.

    Args:
        tree: the target.
        pins: the supported releases.
        wanted: version of the release that a person named.

    Raises:
        UsageError: the version is no pin, or not the one that is wanted.
        CheckError: RECORD is missing from a wheel or cannot be read, or there are several.
    """
    home = tree.metadata_folder()
    record = _record(tree, home)
    manifest, findings = _manifest(tree)
    version = _version(tree, home)
    pin = _pin(pins, wanted, version, manifest)
    official = home is None or home.startswith(f"{pins.project}-")
    if not official:
        findings += (Finding(Severity.NOTE, home or "", f"is not the distribution {pins.project}"),)
    return Subject(
        kind=TargetKind.WHEEL if tree.is_wheel else TargetKind.INSTALLATION if home else TargetKind.SOURCE,
        record=record,
        manifest=manifest,
        version=version,
        pin=pin,
        release=_release(pins, pin),
        official=official,
        findings=findings,
    )


def _record(tree: Checkable, home: str | None) -> Mapping[str, RecordEntry] | None:
    data = tree.read(f"{home}/RECORD") if home else None
    if data is None and tree.is_wheel:
        raise CheckError(
            f"{tree.label} is no wheel", cause="it has no dist-info/RECORD", fix="download or build the wheel again"
        )
    return None if data is None else parse_record(data)


def _manifest(tree: Checkable) -> tuple[BuildManifest | None, tuple[Finding, ...]]:
    data = tree.read(MANIFEST_PATH)
    if data is None:
        return None, ()
    try:
        return load_manifest(data), ()
    except CheckError as error:
        return None, (Finding(Severity.PROBLEM, MANIFEST_PATH, f"cannot be read: {error.cause}", error.fix),)


def _version(tree: Checkable, home: str | None) -> str:
    metadata = tree.read(f"{home}/METADATA") if home else None
    for data, pattern in ((metadata, _METADATA_VERSION), (tree.read(_VERSION_MODULE), _STATED)):
        stated = pattern.search((data or b"").decode("utf-8", errors="replace"))
        if stated:
            return stated[1]
    return ""


def _pin(pins: Pins, wanted: str | None, version: str, manifest: BuildManifest | None) -> str:
    """Return the release to compare with; a newer hqtool's build brings its own chain, and its pin may be unknown."""
    try:
        stated = manifest.pin if manifest else Version(version).public
    except InvalidVersion:
        stated = ""
    if wanted is not None:
        named = pins.get(wanted).version
        if stated and stated != named:
            raise UsageError(
                f"the target is vLLM {stated}, not {named}",
                cause=f"it says that its version is {version or stated}",
                fix="leave --pin out",
            )
        return named
    if manifest or _release(pins, stated):
        return stated
    raise UsageError(
        f"vLLM {version} is not supported" if version else "the target does not say which vLLM it is",
        cause=f"the pins are {', '.join(pin.version for pin in pins.pins)}",
        fix="use a pinned release" if version else "name the release with --pin",
    )


def _release(pins: Pins, version: str) -> Pin | None:
    return next((pin for pin in pins.pins if pin.version == version), None)
