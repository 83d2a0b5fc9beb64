#!/bin/bash
# Install what is missing from packages.txt and build the programs in build/.
# usage: setup.sh [GROUP...], of packages.txt beside 'programs' and 'optional'
set -eu
cd "$(dirname "$0")"
exec </dev/null

# missing GROUP...: lines "NAME # USE" of packages.txt that are not installed.
missing() {
    local group='' package use
    while read -r package use; do
        case $package in
        '' | '#'*) continue ;;
        '['*) group=$package && continue ;;
        esac
        case " $* " in
        *" ${group:1:-1} "*) ;;
        *) continue ;;
        esac
        case $(dpkg-query -W -f '${Status}' "$package" 2>&1) in
        *' ok installed') ;;
        *) echo "$package $use" ;;
        esac
    done <packages.txt
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

may_install() {
    command -v apt-get >/dev/null || return
    [ "$(id -u)" -eq 0 ] || { command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 2 ]; }; }
}

install_packages() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@"
}

# install_all NAME...: those that the release has; one that cannot be installed keeps no other away.
install_all() {
    local name known
    as_root apt-get update -qq || true
    mapfile -t known < <(apt-cache show --no-all-versions "$@" 2>/dev/null | sed -n 's/^Package: //p')
    install_packages "${known[@]}" || for name in "${known[@]}"; do
        install_packages "$name" || true
    done
}

groups=(programs optional "$@")
mapfile -t before < <(missing "${groups[@]}")
if [ "${#before[@]}" -gt 0 ] && may_install; then
    install_all "${before[@]%% *}"
fi
mapfile -t after < <(missing "${groups[@]}")
if [ "${#after[@]}" -gt 0 ]; then
    printf 'setup.sh: going on without these packages:\n' >&2
    printf '  %s\n' "${after[@]}" >&2
    may_install || echo "setup.sh: it takes root or sudo: apt-get install ${after[*]%% *}" >&2
fi

# Continuous integration compiles kernels for one GPU of the eight, and stops at warnings, which
# compilers that we have not seen may have.  What was missing, in any group, is looked for again once it is there.
without=$(missing programs optional tests notebooks developers)
if [ ! -f build/build.ninja ]; then
    meson setup build ${CI:+-Dwerror=true -Dgpu_arch=90}
elif [ "$without" != "$(cat build/without 2>/dev/null)" ]; then
    meson setup --reconfigure build
fi
echo "$without" >build/without
ninja -C build programs
