#!/bin/bash
# One command for a machine with one NVIDIA GPU, CUDA 13 and a python3 with PyTorch, also without
# network: build, test, train, measure.  acceptance.py says what follows and takes all options.
#
# usage: tests/gpu/acceptance.sh [--out DIRECTORY] [--carried DIRECTORY] [--seconds N] ...
#
# Libraries that are not installed come from carried/, see carry.sh.
set -u
cd "$(dirname "$0")/../.." || exit

for python in ${PYTHON:-} python3 /usr/bin/python3; do
    if "$python" -c 'import importlib.util as u; exit(not u.find_spec("torch"))' 2>/dev/null; then
        exec "$python" -Bu tests/gpu/acceptance.py "$@"
    fi
done
echo "acceptance.sh: no python3 with PyTorch was found; name one in \$PYTHON"
exit 69
