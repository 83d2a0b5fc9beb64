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

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 2 ]; }; then
        sudo "$@"
    else
        echo "setup.sh: neither root nor sudo" >&2
        return 1
    fi
}

install_packages() {
    as_root apt-get update -qq && as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -qq -y --no-install-recommends "$@"
}

# Most parts are optional: meson says which it leaves out, and stops if it cannot do without.
mapfile -t packages < <(missing)
if [ "${#packages[@]}" -gt 0 ]; then
    install_packages "${packages[@]}" || echo "setup.sh: going on without ${packages[*]}" >&2
fi

# Continuous integration compiles kernels for one GPU of the eight.
options=(-Dwerror=true)
[ -z "${CI:-}" ] || options+=(-Dgpu_arch=90)
if [ ! -f build/build.ninja ]; then
    meson setup build "${options[@]}"
elif [ "${#packages[@]}" -gt 0 ]; then
    meson setup --reconfigure build
fi
ninja -C build
