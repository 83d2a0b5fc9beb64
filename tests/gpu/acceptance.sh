#!/bin/bash
# One command for a machine with one NVIDIA GPU, CUDA 13 and a python3 with PyTorch, also without
# network: build, test, train, measure.  acceptance.py says what follows and takes all options.
#
# usage: tests/gpu/acceptance.sh [--out DIRECTORY] [--carried DIRECTORY] [--seconds N] ...
#        tests/gpu/acceptance.sh --calls     three calls, to paste on such a machine
#        tests/gpu/acceptance.sh --results call-1 call-2 call-3     what they measured, into docs/gpu.md
#
# Libraries that are not installed come from carried/, see carry.sh.
set -u
cd "$(dirname "$0")/../.." || exit

case "${1-}" in
    --calls | --results) exec python3 -B "tests/gpu/${1#--}.py" "${@:2}" ;;
esac

for python in ${PYTHON:-} python3 /usr/bin/python3; do
    if "$python" -c 'import importlib.util as u; exit(not u.find_spec("torch"))' 2>/dev/null; then
        exec "$python" -Bu tests/gpu/acceptance.py "$@"
    fi
done
echo "acceptance.sh: no python3 with PyTorch was found; name one in \$PYTHON"
exit 69
