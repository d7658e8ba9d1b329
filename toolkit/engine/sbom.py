"""The software bill of materials inside the wheel (PEP 770), in CycloneDX 1.6.

The wheel is described by its pedigree: its ancestor is the official wheel, and each topic is one patch, in the order of
the series. That makes the document enough to show every hook without the repository.
"""

from __future__ import annotations

import base64
import binascii
import json
import uuid
from datetime import UTC, datetime
from typing import Any

from toolkit.model.build import BuildManifest
from toolkit.model.errors import CheckError
from toolkit.model.ids import sha256
from toolkit.model.pin import Artifact
from toolkit.model.topic import Kind, Series, TopicSource

SBOM_NAME = "sboms/hqtool.cdx.json"


def make_sbom(
    manifest: BuildManifest, series: Series, *, project: str, licence: str, base: Artifact, when: datetime
) -> bytes:
    """Return the bill of materials of a build.

    It has no random part: the serial number is derived from the contents.

    Args:
        manifest: of the build.
        series: the topics that it has, with their patches.
        project: name on the registry.
        licence: upstream's, as an SPDX expression.
        base: the official wheel.
        when: time of the upstream release.
    """
    tool, _, tool_version = manifest.tool.partition(" ")
    tools = [{"type": "application", "name": tool, "version": tool_version}]
    components = []
    if manifest.kernels is not None:
        tools.append({"type": "application", "name": "nvcc", "version": manifest.kernels.nvcc})
        components.append(
            {
                "type": "file",
                "bom-ref": manifest.kernels.path,
                "name": manifest.kernels.path,
                "hashes": [{"alg": "SHA-256", "content": manifest.kernels.sha256}],
            }
        )
    document: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "tools": {"components": tools},
            "component": {
                **_library(project, manifest.version),
                "bom-ref": "wheel",
                "description": f"Modified build of {project} {manifest.pin}; not made by its project",
                "licenses": [{"expression": licence}],
                "pedigree": {
                    "ancestors": [_ancestor(manifest, project, licence, base)],
                    "patches": [_patch(source) for source in series.topics],
                },
            },
        },
        "components": components,
    }
    digest = sha256(json.dumps(document, sort_keys=True).encode())
    document["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_OID, digest).urn
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()


def read_diffs(data: bytes) -> tuple[bytes, ...]:
    """Return the patches that a bill of materials holds, one for each topic; empty where a topic has no hooks.

    Raises:
        CheckError: it is not a document that `make_sbom` wrote.
    """
    try:
        patches = json.loads(data)["metadata"]["component"]["pedigree"]["patches"]
        return tuple(
            base64.b64decode(patch["diff"]["text"]["content"], validate=True) if "diff" in patch else b""
            for patch in patches
        )
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise CheckError(
            "the bill of materials cannot be read",
            cause=f"{type(error).__name__}: {error}",
            fix="use a wheel that has not been altered, or build it again",
        ) from error


def _library(project: str, version: str) -> dict[str, Any]:
    purl = f"pkg:pypi/{project}@{version.replace('+', '%2B')}"
    return {"type": "library", "name": project, "version": version, "purl": purl}


def _ancestor(manifest: BuildManifest, project: str, licence: str, base: Artifact) -> dict[str, Any]:
    return {
        **_library(project, manifest.pin),
        "bom-ref": "official-wheel",
        "hashes": [{"alg": "SHA-256", "content": base.sha256}],
        "licenses": [{"expression": licence}],
        "properties": [
            {"name": "hqtool:commit", "value": manifest.commit},
            {"name": "hqtool:filename", "value": base.filename},
        ],
    }


def _patch(source: TopicSource) -> dict[str, Any]:
    kind = "backport" if source.topic.kind is Kind.BACKPORT else "unofficial"
    if not source.patch:
        return {"type": kind}
    content = base64.b64encode(source.patch).decode("ascii")
    return {"type": kind, "diff": {"text": {"contentType": "text/x-diff", "encoding": "base64", "content": content}}}
