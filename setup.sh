#!/bin/bash
# Install what is missing from packages.txt and build everything in build/.
set -eu
cd "$(dirname "$0")"
exec </dev/null

missing() {
    local package
    while read -r package _; do
        case $package in '' | '#'*) continue ;; esac
        case $(dpkg-query -W -f '${Status}' "$package" 2>&1) in
        *' ok installed') ;;
        *) echo "$package" ;;
        esac
    done <packages.txt
}

install_packages() {
    local root=()
    if [ "$(id -u)" -ne 0 ]; then
        root=(sudo)
        if ! sudo -n true 2>&1 && ! { command -v sudo && [ -t 2 ]; }; then
            echo "setup.sh: not root and no sudo; going on without: $*"
            return
        fi >&2
    fi
    "${root[@]}" apt-get update -qq
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -qq -y --no-install-recommends "$@"
}

mapfile -t packages < <(missing)
[ "${#packages[@]}" -eq 0 ] || install_packages "${packages[@]}"

[ -f build/build.ninja ] || meson setup build -Dwerror=true
ninja -C build
