"""A pin: one vLLM release that the series supports, and what identifies it."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.errors import UsageError
from toolkit.model.ids import Sha256


@dataclass(frozen=True, slots=True)
class Artifact:
    """One file of the package registry, known by hash before it is downloaded."""

    filename: str
    sha256: Sha256
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One supported vLLM release."""

    version: str
    tag: str
    commit: str
    """The commit the tag points to: 40 hexadecimal digits, or the prefix that is known (at least 9)."""
    released: str
    """ISO date of the upload; outputs carry it as their time, so that two builds are byte-identical."""
    torch: str
    triton: str
    sdist: Artifact
    wheel: Artifact


@dataclass(frozen=True, slots=True)
class Pins:
    """The supported releases, the default among them, and where their history lives."""

    project: str
    """Name on the package registry."""
    repository: str
    """https address of the git repository."""
    default: str
    pins: tuple[Pin, ...]

    def get(self, version: str | None = None) -> Pin:
        """Return the pin of that version, the default one for None.

        Raises:
            UsageError: no such pin.
        """
        wanted = self.default if version is None else version
        for pin in self.pins:
            if pin.version == wanted:
                return pin
        known = ", ".join(pin.version for pin in self.pins)
        raise UsageError(
            f"unknown pin {wanted!r}",
            cause=f"patchsets/pins.toml lists {known}",
            fix="choose one of these with --pin, or add the release to patchsets/pins.toml",
        )
