#!/usr/bin/env bash
# Install hqtool and its locked tools into .venv, then run every check and test, the quick ones first.
#   bash ci/test.sh          everything but the GPU lab
#   bash ci/test.sh fast     no torch, no server: lint, types and the unit lane (about two minutes)
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
[ -x .venv/bin/python ] || "$python" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r ci/lock.txt
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .

.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
.venv/bin/hqtool topics --verify
.venv/bin/pytest -q -n 2 -m "not kernel and not serve and not lab"
[ "${1:-}" = fast ] && exit
# These share one torch environment each and measure nothing, but two servers at once would starve two cores.
.venv/bin/pytest -q -m "kernel or serve"
