"""Frozen values and the error types; no I/O and no logic beyond their own invariants."""
