#!/bin/bash
# Run the two commands of README.md on a fresh clone, in a root of another release of Debian, or install packages there.
#
# usage: distribution.sh RELEASE ROOT [bare|packages DEB...]
#
# ROOT is a folder to make; it takes 9 GB, or 2 GB with `bare`, where nothing is there but what meson
# cannot do without and the user may install nothing.  `packages` are installed, tested and removed: they
# may leave no file behind.  Packages of Debian are from where this machine has them.
# Exit status 77 with the reason in the last line where no root can be made.
set -eu
cd "$(dirname "$0")/.."
release=$1 root=$2 bare=${3:-}
if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
    echo "a root of $release needs root and debootstrap"
    exit 77
fi
if [ $$ -ne 1 ]; then # what is mounted and started below ends with it
    exec unshare --mount --pid --fork --kill-child "$0" "$@"
fi

# shellcheck disable=SC2016 # apt replaces it
uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
rm -rf --one-file-system "$root"
mkdir -p "$root"
mount --bind "$root" "$root"
debootstrap --variant=minbase "$release" "$root" "$uri"
tar -C / -c --ignore-failed-read etc/hosts etc/apt/apt.conf etc/apt/apt.conf.d etc/ssl/certs \
    usr/share/ca-certificates usr/local/share/ca-certificates 2>/dev/null | tar -C "$root" -x
mount -t proc proc "$root/proc"
for folder in dev sys; do
    mount --rbind "/$folder" "$root/$folder"
done
git clone --quiet . "$root/foretrain"
[ "$bare" != packages ] || cp "${@:4}" "$root/foretrain"
cd "$root" && pivot_root . mnt && umount -l mnt

# enter USER COMMAND: by a user of the root, whose home is the clone.
enter() {
    chroot --userspec="$1" . env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/foretrain LANG=C.UTF-8 \
        bash -c "cd /foretrain && $2"
}

if [ "$bare" = packages ]; then
    export DEBIAN_FRONTEND=noninteractive
    files='find /etc /opt /usr -type f -not -name "gshadow-" | sort' # which adduser keeps of before
    enter root "apt-get update -qq && $files >before &&
        apt-get install -qq -y --no-install-recommends ./*.deb python3 openmpi-bin >/dev/null &&
        AUTOPKGTEST_TMP=/tmp debian/tests/predict &&
        apt-get purge -qq -y --autoremove '~i~nforetrain' python3 openmpi-bin >/dev/null &&
        $files >after && diff before after"
    exit
fi
user=root
if [ "$bare" ]; then
    user=nobody:nogroup
    chown -R "$user" foretrain
    enter root 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y \
        --no-install-recommends gcc libc6-dev meson pkgconf python3 git libfyaml-dev libjansson-dev \
        zlib1g-dev libmd-dev libxxhash-dev libcmocka-dev'
fi
enter "$user" './setup.sh && build/foretrain predict experiments/01_sony_abci/v1-1088.yaml'
enter "$user" ./test.sh
