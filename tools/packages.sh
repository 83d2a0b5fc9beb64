#!/bin/bash
# Build the packages of debian/ twice, from HEAD in two folders: equal to the byte, nothing for lintian
# to say; then install, use and remove them in a root of Debian 12.  Build a release's tarball without a network, too.
#
# usage: packages.sh FOLDER
#
# Exit status 77 with the reason in the last line where what builds them is missing.
set -eu
cd "$(dirname "$0")/.."
folder=$(realpath -m "$1")
for program in dpkg-buildpackage dh lintian debootstrap; do
    if ! command -v "$program" >/dev/null; then
        echo "$program is missing (packages dpkg-dev, debhelper, lintian, debootstrap)"
        exit 77
    fi
done

rm -rf --one-file-system "$folder"
for name in first another; do
    mkdir -p "$folder/$name/$name"
    git archive HEAD | tar -x -C "$folder/$name/$name"
    (cd "$folder/$name/$name" && PATH=/usr/lib/ccache:/usr/sbin:/usr/bin:/sbin:/bin dpkg-buildpackage -us -uc -b) >"$folder/$name.log" 2>&1 ||
        { tail -n 20 "$folder/$name.log" && exit 1; }
done
for package in "$folder"/first/*.deb; do
    cmp "$package" "$folder/another/${package##*/}"
done

# The tarball of a release: a network is not needed, and no commit is named.
meson setup "$folder/build" -Dcuda=disabled >"$folder/dist.log"
meson dist -C "$folder/build" --no-tests --formats gztar >>"$folder/dist.log"
release=$(mktemp -d)
trap 'rm -rf "$release"' EXIT
tar -x -C "$release" --strip-components=1 -f "$(echo "$folder/build/meson-dist"/*.tar.gz)"
(cd "$release" && unshare --net sh -c 'meson setup build -Dcuda=disabled && ninja -C build programs') >>"$folder/dist.log"
"$release/build/foretrain" --version | head -n 1 | tee "$folder/version"
grep -qx 'foretrain [0-9.]*' "$folder/version"

lintian --allow-root --fail-on error,warning "$folder"/first/*.changes
ls -l "$folder"/first/*.deb
tools/distribution.sh bookworm "$folder/root" packages "$folder"/first/*.deb
