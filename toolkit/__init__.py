"""The hqtool command: fetch a pinned vLLM, patch it, build its wheel, and check what came out.

Rings, imported inwards only: ``cli`` -> ``jobs`` -> ``io`` and ``engine`` -> ``model``.
"""
