"""The list of a release's files with their hashes, which unpacking its sdist leaves beside the tree.

It stands alone because `check` needs it and must answer at once: what downloads is slow to import.
"""

from __future__ import annotations

import json
from pathlib import Path

from toolkit.io.atomic import atomic_file
from toolkit.io.cache import Cache
from toolkit.model.ids import Sha256
from toolkit.model.pin import Pin


def index_path(tree: Path) -> Path:
    """Return where the list of an unpacked tree lies."""
    return tree.with_name(f"{tree.name}.files.json")


def save_file_index(tree: Path, files: dict[str, tuple[Sha256, int]]) -> None:
    """Write the list of a tree: path -> (sha256, bytes)."""
    with atomic_file(index_path(tree)) as partial:
        partial.write_text(json.dumps(files), encoding="utf-8")


def load_file_index(pin: Pin, cache: Cache) -> dict[str, tuple[Sha256, int]] | None:
    """Return path -> (sha256, bytes) of every file of the pin's sdist, None when it was never fetched."""
    try:
        text = index_path(cache.made("trees", pin.sdist.sha256)).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return {path: (Sha256(digest), size) for path, (digest, size) in json.loads(text).items()}
