#!/bin/bash
# Fetch the libraries that a machine without network needs for tests/gpu/acceptance.sh.
#
# usage: tests/gpu/carry.sh DIRECTORY
#
# Run on Debian 12 with the package lists up to date (apt-get update).  DIRECTORY then holds the
# packages of packages.txt, a few MB; acceptance.sh takes them from carried/ in the project's root,
# or from where --carried says.
set -eu
if [ $# -ne 1 ]; then
    echo "usage: tests/gpu/carry.sh DIRECTORY" >&2
    exit 64
fi
mapfile -t packages < <(sed 's/#.*//' "$(dirname "$0")/packages.txt" | xargs -n 1)
mkdir -p "$1"
cd "$1"
if ! apt-get -qq download "${packages[@]}"; then
    echo "carry.sh: apt-get could not fetch them all; run 'apt-get update' first" >&2
    exit 69
fi
du -sh . | sed 's/\t.*/ of packages/'
