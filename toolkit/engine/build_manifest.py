"""The build manifest: how ``vllm/hq/manifest.json`` is made, written and read, and how a build is named.

The runtime topic reads the same file with nothing but the standard library, so every key is the name of a field in
``model/build.py``. The chain is written as ``{"topics": [...], "files": {path: [ids]}}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NoReturn, TypeVar

from packaging.version import InvalidVersion, Version

from toolkit.model.build import MANIFEST_SCHEMA, BuildManifest, BuiltKernels, BuiltTopic
from toolkit.model.chain import Chain, FileChain
from toolkit.model.errors import CheckError, UsageError
from toolkit.model.ids import BlobId, Sha256, TopicId
from toolkit.model.pin import Pin
from toolkit.model.topic import Series, TopicSource

_T = TypeVar("_T")
_BLOB = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def wheel_version(pin: Pin, revision: int, arches: Sequence[str] = ("8.6",)) -> str:
    """Return the version of a build: ``0.33.0+hq1.sm86``.

    PEP 440 compares labels as text, so ``hq10`` sorts below ``hq9``. That does not matter to pip, which replaces an
    installed version by any other when it is given the file.

    Args:
        pin: the release that is patched.
        revision: the series' revision, from 1.
        arches: compute capabilities in NVIDIA's notation, ``8.6``.

    Raises:
        UsageError: the parts give no version in PEP 440's normal form, under which pip and RECORD would disagree.
    """
    label = ".".join([f"hq{revision}", *(f"sm{arch.replace('.', '')}" for arch in arches)])
    version = f"{pin.version}+{label}"
    try:
        normal = str(Version(version))
    except InvalidVersion:
        normal = ""
    if normal != version or revision < 1:
        raise UsageError(
            f"no wheel can carry the version {version!r}",
            cause=f"PEP 440 spells it {normal!r}" if normal else "it is not a version by PEP 440",
            fix="use a release number for the pin, a revision from 1 and architectures such as 8.6",
        )
    return version


def make_manifest(
    *,
    pin: Pin,
    series: Series,
    chain: Chain,
    base: Sha256,
    version: str,
    generated: dict[str, Sha256],
    kernels: BuiltKernels | None,
    tool: str,
    ops: Mapping[TopicId, tuple[str, ...]] | None = None,
) -> BuildManifest:
    """Return the manifest of a build.

    Args:
        pin: the release that was patched.
        series: the topics that were applied.
        chain: what applying them gave.
        base: hash of the official wheel or of the sdist.
        version: of the result, see `wheel_version`.
        generated: path -> hash of files that the build rewrites and no topic owns.
        kernels: the compiled library, if there is one.
        tool: what built it, ``hqtool 0.1.0``.
        ops: topic -> names of the torch operators that its CUDA sources define.
    """
    named = ops or {}
    topics = tuple(_built(source, chain, named.get(source.topic.id, ())) for source in series.topics)
    return BuildManifest(
        version=version,
        pin=pin.version,
        commit=pin.commit,
        base=base,
        revision=series.revision,
        torch=pin.torch,
        triton=pin.triton,
        topics=topics,
        chain=Chain(chain.topics, tuple(sorted(chain.files, key=lambda file: file.path))),
        generated=dict(sorted(generated.items())),
        kernels=kernels,
        tool=tool,
    )


def dump_manifest(manifest: BuildManifest) -> bytes:
    """Return the manifest as canonical JSON: sorted keys, one space of indent, a newline at the end."""
    value = asdict(manifest)
    value["chain"] = {
        "topics": list(manifest.chain.topics),
        "files": {file.path: list(file.ids) for file in manifest.chain.files},
    }
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def load_manifest(data: bytes) -> BuildManifest:
    """Read what `dump_manifest` wrote.

    Raises:
        CheckError: not JSON, of another schema, or a key is missing, unknown or of the wrong kind.
    """
    try:
        value = json.loads(data)
    except ValueError as error:  # covers bad UTF-8 too
        _refuse(f"it is not JSON: {error}")
    if not isinstance(value, dict):
        _refuse("it is not a JSON object")
    if value.get("schema") != MANIFEST_SCHEMA:
        _refuse(f"its schema is {value.get('schema')!r}, and this hqtool reads {MANIFEST_SCHEMA}")
    _only_keys(value, BuildManifest.__dataclass_fields__, "manifest")
    return BuildManifest(
        version=_take(value, "version", str),
        pin=_take(value, "pin", str),
        commit=_take(value, "commit", str),
        base=_digest(value, "base"),
        revision=_take(value, "revision", int),
        torch=_take(value, "torch", str),
        triton=_take(value, "triton", str),
        topics=tuple(_load_topic(item) for item in _take(value, "topics", list)),
        chain=_load_chain(_take(value, "chain", dict)),
        generated={path: _digest(value["generated"], path) for path in _take(value, "generated", dict)},
        kernels=None if value.get("kernels", 0) is None else _load_kernels(_take(value, "kernels", dict)),
        tool=_take(value, "tool", str),
    )


def _built(source: TopicSource, chain: Chain, ops: tuple[str, ...]) -> BuiltTopic:
    topic = source.topic
    step = chain.topics.index(topic.id) + 1
    return BuiltTopic(
        id=topic.id,
        title=topic.title,
        kind=topic.kind.value,
        what=topic.what,
        lossless=topic.numbers.lossless,
        error=topic.numbers.error,
        upstream=topic.upstream.state.value,
        files=tuple(sorted(file.path for file in chain.files if file.ids[step] != file.ids[step - 1])),
        ops=ops,
        knobs={knob.name: knob.default for knob in topic.knobs},
    )


def _load_topic(value: Any) -> BuiltTopic:
    if not isinstance(value, dict):
        _refuse("a topic is not an object")
    _only_keys(value, BuiltTopic.__dataclass_fields__, "topic")
    return BuiltTopic(
        id=TopicId(_take(value, "id", str)),
        title=_take(value, "title", str),
        kind=_take(value, "kind", str),
        what=_take(value, "what", str),
        lossless=_take(value, "lossless", bool),
        error=_take(value, "error", str),
        upstream=_take(value, "upstream", str),
        files=_strings(value, "files"),
        ops=_strings(value, "ops"),
        knobs={name: _take(value["knobs"], name, str) for name in _take(value, "knobs", dict)},
    )


def _load_kernels(value: dict[str, Any]) -> BuiltKernels:
    _only_keys(value, BuiltKernels.__dataclass_fields__, "kernels")
    return BuiltKernels(
        path=_take(value, "path", str),
        sha256=_digest(value, "sha256"),
        size=_take(value, "size", int),
        architectures=_strings(value, "architectures"),
        nvcc=_take(value, "nvcc", str),
        stable_abi=_take(value, "stable_abi", str),
    )


def _load_chain(value: dict[str, Any]) -> Chain:
    _only_keys(value, ("topics", "files"), "chain")
    topics = tuple(TopicId(name) for name in _strings(value, "topics"))
    files = []
    for path, ids in _take(value, "files", dict).items():
        if not isinstance(ids, list) or len(ids) != len(topics) + 1:
            _refuse(f"the chain of {path} does not have one id before the topics and one after each")
        bad = [item for item in ids if item is not None and not (isinstance(item, str) and _BLOB.fullmatch(item))]
        if bad:
            _refuse(f"the chain of {path} holds {bad[0]!r}, which is no blob id")
        files.append(FileChain(path, tuple(None if item is None else BlobId(item) for item in ids)))
    return Chain(topics, tuple(files))


def _take(value: dict[str, Any], key: str, kind: type[_T]) -> _T:
    """Return the member of that name; JSON's true is not taken for the number 1."""
    if key not in value:
        _refuse(f"the key {key!r} is missing")
    found = value[key]
    if type(found) is not kind:
        _refuse(f"{key!r} is {found!r}, not of the type {kind.__name__}")
    return found


def _strings(value: dict[str, Any], key: str) -> tuple[str, ...]:
    found = _take(value, key, list)
    if not all(isinstance(item, str) for item in found):
        _refuse(f"{key!r} is not a list of strings")
    return tuple(found)


def _digest(value: dict[str, Any], key: str) -> Sha256:
    found = _take(value, key, str)
    if not _SHA256.fullmatch(found):
        _refuse(f"{key!r} is {found!r}, which is no sha256")
    return Sha256(found)


def _only_keys(value: dict[str, Any], known: Any, where: str) -> None:
    unknown = sorted(set(value) - set(known))
    if unknown:
        _refuse(f"the {where} has keys that this hqtool does not know: {', '.join(unknown)}")


def _refuse(cause: str) -> NoReturn:
    raise CheckError(
        "the build manifest cannot be read",
        cause=cause,
        fix="use the hqtool that built this wheel, or build the wheel again",
    )
