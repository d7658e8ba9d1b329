"""Files that tools leave beside the real ones, and that never count as part of a tree or a topic."""

from __future__ import annotations

_SUFFIXES = (".orig", ".rej", ".pyc", ".pyo", ".swp", ".swo", "~")
_NAMES = frozenset({".DS_Store", "Thumbs.db", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"})


def is_leftover(name: str) -> bool:
    """Say whether a file or folder of that name is one: patch's, Python's, an editor's or a file manager's.

    Args:
        name: the last part of a path.
    """
    return name in _NAMES or name.endswith(_SUFFIXES) or name.startswith(".#")
