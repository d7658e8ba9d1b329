"""What the series holds, over all pins, and the page that describes it."""

from __future__ import annotations

from pathlib import Path

from toolkit.engine.patches_page import render_page
from toolkit.io.atomic import atomic_file
from toolkit.jobs.series import load_order, load_pins, load_series
from toolkit.model.errors import UsageError

PAGE = "PATCHES.md"


def page(folder: Path) -> str:
    """Return what PATCHES.md must hold.

    Args:
        folder: of the series.

    Raises:
        UsageError: the series is invalid for one of the pins.
    """
    pins = load_pins(folder)
    series = {pin.version: load_series(folder, pin.version) for pin in pins.pins}
    return render_page(pins, load_order(folder), series)


def page_path(folder: Path) -> Path:
    """Return where PATCHES.md lies in the checkout that the series belongs to.

    Raises:
        UsageError: the series does not lie in a checkout.
    """
    root = folder.resolve().parent
    if not (root / "pyproject.toml").is_file():
        raise UsageError(
            f"there is no {PAGE} for the series in {folder}",
            cause=f"{root} is no checkout of hqtool: it has no pyproject.toml",
            fix="run this in a checkout, with --patchsets patchsets",
        )
    return root / PAGE


def write_page(folder: Path) -> bool:
    """Bring PATCHES.md up to date; return whether it had to be written.

    Raises:
        UsageError: the series is invalid, or does not lie in a checkout.
    """
    target, text = page_path(folder), page(folder)
    if _holds(target, text):
        return False
    with atomic_file(target) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")
    return True


def page_is_current(folder: Path) -> bool:
    """Say whether PATCHES.md is what the manifests give.

    Raises:
        UsageError: the series is invalid, or does not lie in a checkout.
    """
    return _holds(page_path(folder), page(folder))


def _holds(target: Path, text: str) -> bool:
    return target.is_file() and target.read_bytes() == text.encode()
