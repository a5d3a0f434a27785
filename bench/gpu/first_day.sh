#!/bin/bash
# The first day on a GPU in one call: builds, then checks and measures in stages; see first_day.py --help.
# Needs torch, nvcc, CMake, Ninja, Python 3 and what `gather_and_build.sh gather` brought; no registry.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec python3 bench/gpu/first_day.py "$@"
