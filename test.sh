#!/bin/bash
# Run the tests: all of them on the full build, and those that another build can change (not of suite
# 'once') with every optional part off, and under the address and undefined-behaviour sanitizers.
# What takes longer or needs a quiet machine is run by .ci/nightly, whose record is told, too.
# The last line counts what really ran; the exit status is not 0 when anything failed.
set -u
cd "$(dirname "$0")" || exit
exec </dev/null

builds=(build build-bare build-sanitized)
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

# configure DIRECTORY OPTION...: once.
configure() {
    printf '\n== %s\n' "$1"
    [ -f "$1/build.ninja" ] || meson setup "$@"
}

# run DIRECTORY OPTION...: build it and run its tests.  Their limits of time are for what hangs: ten
# times as long as is enough on a quiet machine.  Three tests share two processors: those of signals
# and of what waits for another rank sleep for half of their time and more.
run() {
    ninja -C "$1" &&
        meson test -C "$1" --no-rebuild --print-errorlogs -t 10 --num-processes $(($(nproc) * 3 / 2)) "${@:2}"
    printf '%s: %d s since the start\n' "$1" "$SECONDS"
}

for build in "${builds[@]}"; do
    rm -f "$build/meson-logs/testlog.json"
done

./setup.sh tests notebooks ${CI:+developers} &&
    run build

configure build-bare -Dauto_features=disabled ${CI:+-Dwerror=true} -Dbuildtype=debug &&
    run build-bare --no-suite once --no-suite core

export FORETRAIN_TEST_NETWORKS=1
configure build-sanitized -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 \
    -Dgpu_arch=90 -Dc_args=-fno-sanitize-recover=all &&
    run build-sanitized --no-suite once

echo
/usr/bin/python3 tools/test_summary.py --nightly tests/nightly.json "${builds[@]}"
