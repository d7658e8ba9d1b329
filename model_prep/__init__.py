"""Requantize a published checkpoint into the one the patched vLLM serves; needs no torch."""
