"""Adapters to the outside: files, archives, git, HTTP, compilers, the terminal."""
