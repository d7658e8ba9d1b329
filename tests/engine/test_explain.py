"""Explaining a build from its manifest and its bill of materials alone."""

from __future__ import annotations

import pytest

from tests.engine.test_overlay import plan
from tests.wheel_fixtures import BUILT_INFO, PATCH
from toolkit.engine.explain import Explanation, explain, only
from toolkit.engine.sbom import SBOM_NAME
from toolkit.model.errors import CheckError, UsageError
from toolkit.model.patch import Change


def parts() -> tuple[bytes, bytes]:
    """Return manifest and bill of materials of the tiny build."""
    found = {member.name: member.data for member in plan().written}
    return found["vllm/hq/manifest.json"], found[f"{BUILT_INFO}/{SBOM_NAME}"]


def explained() -> Explanation:
    """Return the explanation of the tiny build."""
    return explain(*parts())


def test_topics_in_order_with_files_and_hooks() -> None:
    runtime, hook = explained().topics
    assert (runtime.topic.id, runtime.diff) == ("runtime", b"")
    assert [(item.path, item.change) for item in runtime.files] == [
        ("vllm/hq/__init__.py", Change.CREATE),
        ("vllm/hq/guard.py", Change.CREATE),
    ]
    assert (hook.topic.id, hook.diff) == ("hook", PATCH)
    assert [(item.path, item.change) for item in hook.files] == [
        ("vllm/empty.py", Change.DELETE),
        ("vllm/main.py", Change.MODIFY),
    ]


def test_one_topic_alone() -> None:
    assert [item.topic.id for item in only(explained(), "hook").topics] == ["hook"]
    with pytest.raises(UsageError, match="runtime, hook"):
        only(explained(), "other")


def test_parts_of_two_builds_are_refused() -> None:
    manifest, sbom = parts()
    with pytest.raises(CheckError, match="do not belong together"):
        explain(manifest, sbom.replace(b'"patches": [', b'"patches": [{"type": "unofficial"},'))
