"""Reads the series from its folder: pins, order, manifests, patches, new files and CUDA sources.

Everything that is wrong anywhere in the folder is reported in one error, so that one round of corrections is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from toolkit.engine.leftovers import is_leftover
from toolkit.engine.manifest import SERIES_FILE, TOPIC_FILE, parse_series, parse_topic
from toolkit.engine.pins import PINS_FILE, parse_pins
from toolkit.model.errors import UsageError
from toolkit.model.ids import TopicId
from toolkit.model.pin import Pins
from toolkit.model.topic import Series, SeriesEntry, SeriesOrder, Topic, TopicSource

NEW_FILES = "vllm/hq/"
"""Where topics may add files; a file elsewhere could collide with one that a later vLLM brings."""

_KERNEL_SUFFIXES = (".cu", ".cuh", ".h", ".cpp")


def load_pins(folder: Path) -> Pins:
    """Return the supported releases.

    Raises:
        UsageError: there is no ``pins.toml``, or it is invalid.
    """
    return parse_pins(_text(folder, PINS_FILE))


def load_order(folder: Path) -> SeriesOrder:
    """Return the order of topics.

    Raises:
        UsageError: there is no ``series.toml``, or it is invalid.
    """
    return parse_series(_text(folder, SERIES_FILE))


def load_series(folder: Path, pin: str, *, without: tuple[str, ...] = ()) -> Series:
    """Return the topics of a pin, in order, with what they change.

    Args:
        folder: holds ``pins.toml``, ``series.toml`` and one folder a topic.
        pin: version of a supported release.
        without: topics to leave out.

    Raises:
        UsageError: the pin is unknown, or something is wrong with the series or with ``without``; the details list
            every mistake.
    """
    pins = load_pins(folder)
    pins.get(pin)
    order = load_order(folder)
    problems = [*_folder_problems(folder, order), *_pin_problems(order, pins), *_choice_problems(order, pin, without)]
    topics = _read_topics(folder, order, problems)
    problems += _shared_knobs(topics)
    sources = []
    for entry in order.topics:
        if entry.id in topics and _has(entry, pin) and entry.id not in without:
            sources.append(_read_source(folder / entry.id, topics[entry.id], pin, problems))
    problems += _shared_files(sources)
    if problems:
        raise UsageError(
            f"the series cannot be used for vLLM {pin}",
            cause="one mistake" if len(problems) == 1 else f"{len(problems)} mistakes",
            details=problems,
            fix=f"correct these in {folder}; docs/topics.md describes the format",
        )
    return Series(pin, order.revision, tuple(sources))


def _has(entry: SeriesEntry, pin: str) -> bool:
    return not entry.pins or pin in entry.pins


def _text(folder: Path, name: str) -> str:
    try:
        return (folder / name).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        cause, fix = f"{folder} has no {name}", "name the folder of the series with --patchsets"
    except UnicodeDecodeError as error:
        cause, fix = f"it is not UTF-8: {error}", "save it as UTF-8"
    raise UsageError(f"{folder / name} cannot be read", cause=cause, fix=fix)


def _folder_problems(folder: Path, order: SeriesOrder) -> Iterator[str]:
    listed = {entry.id for entry in order.topics}
    for item in sorted(folder.iterdir()):
        if item.is_dir() and not is_leftover(item.name) and item.name not in listed:
            yield f"{item.name}: is a folder that {SERIES_FILE} does not list"


def _pin_problems(order: SeriesOrder, pins: Pins) -> Iterator[str]:
    known = [pin.version for pin in pins.pins]
    for entry in order.topics:
        for version in entry.pins:
            if version not in known:
                yield f"{SERIES_FILE}: {entry.id}: pins has {version!r}, which {PINS_FILE} does not list"


def _choice_problems(order: SeriesOrder, pin: str, without: tuple[str, ...]) -> Iterator[str]:
    listed = [entry.id for entry in order.topics]
    for name in without:
        if name not in listed:
            yield f"--without {name}: no such topic; the series has {', '.join(listed)}"
    for entry in order.topics:
        if entry.id in without or not _has(entry, pin):
            continue
        for required in entry.requires:
            if required in without:
                yield f"--without {required}: {entry.id} requires it; leave out {entry.id} too"
            elif any(other.id == required and not _has(other, pin) for other in order.topics):
                yield f"{SERIES_FILE}: {entry.id}: requires {required}, which does not exist for {pin}"


def _read_topics(folder: Path, order: SeriesOrder, problems: list[str]) -> dict[TopicId, Topic]:
    """Return the manifests that are right and add what is wrong with the others to the problems."""
    topics = {}
    for entry in order.topics:
        home = folder / entry.id
        if home.is_symlink():
            problems.append(f"{entry.id}: is a symbolic link; the files of a topic lie in its own folder")
        elif not home.is_dir():
            problems.append(f"{entry.id}: is listed in {SERIES_FILE}, but has no folder")
        else:
            try:
                topics[entry.id] = parse_topic(_text(home, TOPIC_FILE), folder=entry.id)
            except UsageError as error:
                problems.extend(error.details or [f"{entry.id}/{TOPIC_FILE}: {error.cause}"])
    return topics


def _read_source(home: Path, topic: Topic, pin: str, problems: list[str]) -> TopicSource:
    """Return what a topic changes for a pin; what its folder holds wrongly is added to the problems."""
    patch, files, kernels = b"", {}, {}
    patched_pins = []
    for path in _files_under(home, home, problems):
        name = path.relative_to(home).as_posix()
        if name == TOPIC_FILE:
            continue
        if path.suffix == ".patch" and path.parent == home:
            patched_pins.append(path.stem)
            patch = path.read_bytes() if path.stem == pin else patch
        elif name.startswith(f"files/{NEW_FILES}"):
            files[name.removeprefix("files/")] = path.read_bytes()
        elif path.suffix in _KERNEL_SUFFIXES and path.parent == home / "csrc":
            kernels[path.name] = path.read_bytes()
        else:
            problems.append(
                f"{topic.id}/{name}: does not belong in a topic; new files of the tree are files/{NEW_FILES}..."
            )
    if pin not in patched_pins:
        if patched_pins:
            problems.append(f"{topic.id}/{pin}.patch: is missing, though there is one for {', '.join(patched_pins)}")
        elif not files and not kernels:
            problems.append(f"{topic.id}: changes nothing: it has neither {pin}.patch nor files nor csrc")
    elif not patch.strip():
        problems.append(f"{topic.id}/{pin}.patch: is empty; a topic without hooks has no patch file")
    return TopicSource(topic, patch, files, kernels)


def _files_under(folder: Path, home: Path, problems: list[str]) -> Iterator[Path]:
    """Yield the files of a topic, sorted, leftovers skipped; links are not followed but become problems."""
    for path in sorted(folder.iterdir()):
        if is_leftover(path.name):
            continue
        if path.is_symlink():
            problems.append(f"{home.name}/{path.relative_to(home)}: is a symbolic link; put the file itself there")
        elif path.is_dir():
            yield from _files_under(path, home, problems)
        else:
            yield path


def _shared_knobs(topics: dict[TopicId, Topic]) -> Iterator[str]:
    owners: dict[str, TopicId] = {}
    for name, topic in topics.items():
        for knob in topic.knobs:
            owner = owners.setdefault(knob.name, name)
            if owner != name:
                yield f"{name}/{TOPIC_FILE}: knobs: {knob.name} is {owner}'s already"


def _shared_files(sources: list[TopicSource]) -> Iterator[str]:
    owners: dict[str, TopicId] = {}
    for source in sources:
        for path in source.files:
            owner = owners.setdefault(path, source.topic.id)
            if owner != source.topic.id:
                yield f"{source.topic.id}/files/{path}: {owner} adds that file already"
