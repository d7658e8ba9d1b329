"""The folder that an output goes to: found unfit before the work, not after it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from toolkit.io.atomic import PARTIAL
from toolkit.model.errors import EnvironmentUnfitError


def prepare_folder(folder: Path, needed: int) -> None:
    """Make the folder, and see that files can be created in it and that so many bytes are free.

    Permissions are not asked for but tried: for root, and on read-only file systems, they say nothing.

    Raises:
        EnvironmentUnfitError: one of these is not so.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, prefix=PARTIAL):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        raise EnvironmentUnfitError(
            f"nothing can be written to {folder}",
            cause=error.strerror or str(error),
            fix="name a folder that you may write with --out, or change its permissions",
        ) from error
    if free < needed:
        raise EnvironmentUnfitError(
            f"not enough room in {folder}",
            cause=f"{needed / 1e6:,.0f} MB are needed and {free / 1e6:,.0f} MB are free",
            fix="free some space (hqtool cache shows what the cache holds), or name another folder with --out",
        )
