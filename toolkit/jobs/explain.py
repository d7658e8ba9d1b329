"""Explains a build - a wheel, an installation, a folder - from what it holds about itself."""

from __future__ import annotations

from pathlib import Path

from toolkit.engine.explain import Explanation, explain
from toolkit.engine.sbom import SBOM_NAME
from toolkit.io.checkable import find_installed, open_target
from toolkit.model.build import MANIFEST_PATH
from toolkit.model.errors import CheckError


def explain_target(target: Path) -> Explanation:
    """Explain a wheel, or the folder that one was installed into.

    Raises:
        UsageError: there is no vLLM.
        CheckError: it cannot be read, or hqtool did not build it.
    """
    with open_target(target) as tree:
        manifest, folder = tree.read(MANIFEST_PATH), tree.metadata_folder()
        sbom = tree.read(f"{folder}/{SBOM_NAME}") if folder else None
        if manifest is None or sbom is None:
            missing = MANIFEST_PATH if manifest is None else f"{SBOM_NAME} in its dist-info folder"
            raise CheckError(
                f"hqtool build-wheel did not make {tree.label}",
                cause=f"it has no {missing}",
                fix="name a wheel that hqtool build-wheel wrote, or an installation of one",
            )
        return explain(manifest, sbom)


def explain_installed(python: Path | None) -> Explanation:
    """Explain the vLLM that an interpreter would import; it is not imported.

    Args:
        python: the interpreter; the first python3 of the PATH if left out.

    Raises:
        UsageError: that interpreter has no vLLM.
        EnvironmentUnfitError: the interpreter does not run.
        CheckError: hqtool did not build what is installed.
    """
    return explain_target(find_installed(python))
