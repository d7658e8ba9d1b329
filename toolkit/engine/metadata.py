"""Edits of a wheel's own texts: METADATA, WHEEL, entry_points.txt and the version module.

Each edit changes the lines that it must and keeps every other byte. What is not found exactly as expected is an error:
a wheel that says the wrong thing about itself is worse than none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.model.errors import CheckError

PLUGIN_GROUP = "vllm.general_plugins"
GUARD_NAME = "hq_guard"
GUARD_TARGET = "vllm.hq.guard:register"
NOTICE = "hqtool-modifications.txt"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the wheel is.

    Attributes:
        project: name on the registry.
        pin: upstream's version.
        version: of the modified build.
    """

    project: str
    pin: str
    version: str

    @property
    def statement(self) -> str:
        """What the licence asks for, in one sentence (Apache-2.0, section 4b)."""
        return (
            f"Modified build of vLLM {self.pin}: files were changed, and the vLLM project neither made nor supports it."
        )


def edit_metadata(data: bytes, identity: Identity, topics: Sequence[str]) -> bytes:
    """Return METADATA under the new version, saying in summary and description that the build is modified.

    Requirements, licence fields and everything else stay as they are.

    Args:
        data: upstream's METADATA.
        identity: old and new version.
        topics: one line of text for each topic.

    Raises:
        CheckError: version or summary are not there exactly once, or the version is not the pin's.
    """
    head, separator, body = data.partition(b"\n\n")
    lines = head.rstrip(b"\n").split(b"\n")
    version = _only(lines, b"Version: ", "METADATA")
    if lines[version] != f"Version: {identity.pin}".encode():
        raise _odd("METADATA", f"it says {lines[version].decode(errors='replace')!r}, not version {identity.pin}")
    lines[version] = f"Version: {identity.version}".encode()
    summary = _only(lines, b"Summary: ", "METADATA")
    lines[summary] = b"Summary: Modified build of vLLM (not official): " + lines[summary].removeprefix(b"Summary: ")
    licences = [number for number, line in enumerate(lines) if line.startswith(b"License-File: ")]
    if licences:
        lines.insert(licences[-1] + 1, f"License-File: {NOTICE}".encode())
    notice = "\n".join(
        [
            f"**{identity.statement}**",
            "",
            f"Version {identity.version} adds, in this order:",
            "",
            *(f"- {topic}" for topic in topics),
            "",
            f"`licenses/{NOTICE}` in its dist-info folder lists the files that differ. Upstream's description follows.",
            "",
            "---",
            "",
        ]
    )
    return b"\n".join(lines) + b"\n\n" + notice.encode() + (b"\n" + body.lstrip(b"\n") if separator else b"")


def licence_of(data: bytes) -> str:
    """Return METADATA's licence as an SPDX expression.

    Raises:
        CheckError: it states none, or several.
    """
    lines = data.partition(b"\n\n")[0].split(b"\n")
    field = lines[_only(lines, b"License-Expression: ", "METADATA")]
    return field.removeprefix(b"License-Expression: ").decode("ascii").strip()


def edit_wheel(data: bytes, tags: Sequence[str], generator: str) -> bytes:
    """Return WHEEL with these tags and this generator.

    Upstream's WHEEL may name another platform than its file name does; the file name's tags are right.

    Args:
        data: upstream's WHEEL.
        tags: ``cp38-abi3-manylinux_2_28_x86_64``, one for each combination.
        generator: ``hqtool 0.1.0``.

    Raises:
        CheckError: generator or tag are missing, or the wheel's version is not 1.0.
    """
    lines = [line for line in data.split(b"\n") if line.strip()]
    _only(lines, b"Wheel-Version: 1.0", "WHEEL")
    lines[_only(lines, b"Generator: ", "WHEEL")] = f"Generator: {generator}".encode()
    first = next((number for number, line in enumerate(lines) if line.startswith(b"Tag: ")), None)
    if first is None:
        raise _odd("WHEEL", "it has no tag")
    others = [line for line in lines if not line.startswith(b"Tag: ")]
    new = [f"Tag: {tag}".encode() for tag in sorted(tags)]
    return b"\n".join([*others[:first], *new, *others[first:]]) + b"\n"


def add_guard(data: bytes) -> bytes:
    """Return entry_points.txt with the start-up guard as one more general plugin; the other entries stay.

    Raises:
        CheckError: an entry of the guard's name is there already.
    """
    lines = data.decode("utf-8").rstrip("\n").split("\n") if data.strip() else []
    if any(re.match(rf"{GUARD_NAME}\s*=", line) for line in lines):
        raise _odd("entry_points.txt", f"it has an entry named {GUARD_NAME} already")
    entry = f"{GUARD_NAME} = {GUARD_TARGET}"
    section = next((number for number, line in enumerate(lines) if line.strip() == f"[{PLUGIN_GROUP}]"), None)
    if section is None:
        lines += [*([""] if lines else []), f"[{PLUGIN_GROUP}]", entry]
    else:
        end = next((n for n in range(section + 1, len(lines)) if lines[n].startswith("[")), len(lines))
        while not lines[end - 1].strip():
            end -= 1
        lines.insert(end, entry)
    return ("\n".join(lines) + "\n").encode()


def edit_version_module(data: bytes, identity: Identity) -> bytes:
    """Return ``vllm/_version.py`` with the label in its version and, as the last element, in its version tuple.

    Raises:
        CheckError: one of the four names is not assigned exactly once, or not the pin's version.
    """
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError) as error:
        raise _odd("the version module", str(error)) from error
    release = tuple(int(part) for part in identity.pin.split(".") if part.isdigit())
    label = identity.version.partition("+")[2]
    wanted: dict[str, tuple[object, object]] = {
        "__version__": (identity.pin, identity.version),
        "version": (identity.pin, identity.version),
        "__version_tuple__": (release, (*release, label)),
        "version_tuple": (release, (*release, label)),
    }
    values: dict[tuple[int, int], tuple[ast.expr, object]] = {}
    for name, (old, new) in wanted.items():
        node = _assigned(tree, name)
        if _literal(node) != old:
            raise _odd("the version module", f"{name} is not {old!r}")
        values[node.lineno, node.col_offset] = (node, new)
    lines = data.splitlines(keepends=True)
    for _, (node, new) in sorted(values.items(), reverse=True, key=lambda item: item[0]):
        line = lines[node.lineno - 1]
        if node.end_lineno != node.lineno:
            raise _odd("the version module", f"the value in line {node.lineno} takes several lines")
        lines[node.lineno - 1] = line[: node.col_offset] + repr(new).encode() + line[node.end_col_offset :]
    return b"".join(lines)


def _assigned(tree: ast.Module, name: str) -> ast.expr:
    found = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    ]
    if len(found) != 1:
        raise _odd("the version module", f"{name} is assigned {len(found)} times, not once")
    return found[0]


def _literal(node: ast.expr) -> object:
    try:
        value: object = ast.literal_eval(node)
    except ValueError:
        return None
    return value


def _only(lines: list[bytes], prefix: bytes, where: str) -> int:
    """Return the number of the only line that starts so."""
    found = [number for number, line in enumerate(lines) if line.startswith(prefix)]
    if len(found) != 1:
        raise _odd(where, f"{len(found)} lines start with {prefix.decode().rstrip()!r}, and one must")
    return found[0]


def _odd(where: str, cause: str) -> CheckError:
    return CheckError(
        f"{where} of the official wheel is not as expected",
        cause=cause,
        fix="check that patchsets/pins.toml names the right wheel; a release of another form needs a newer hqtool",
    )
