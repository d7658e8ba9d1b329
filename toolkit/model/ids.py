"""Identities: git blob ids, sha256 digests and the names of pins and topics."""

from __future__ import annotations

import hashlib
from typing import NewType

BlobId = NewType("BlobId", str)
"""40 hexadecimal digits: git's SHA-1 of ``blob <size>\\0`` and the bytes. Identity against accident, not attack."""

Sha256 = NewType("Sha256", str)
"""64 hexadecimal digits."""

TopicId = NewType("TopicId", str)


def blob_id(data: bytes) -> BlobId:
    """Return the id that git gives a file of these bytes (git-hash-object(1))."""
    digest = hashlib.sha1(b"blob %d\0" % len(data), usedforsecurity=False)
    digest.update(data)
    return BlobId(digest.hexdigest())


def sha256(data: bytes) -> Sha256:
    """Return the hexadecimal sha256 of the bytes."""
    return Sha256(hashlib.sha256(data).hexdigest())
