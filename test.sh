#!/bin/bash
# Run the tests on the full build; those of suite 'parts' with every optional part off, which alone could
# change them; and those that are not of suite 'once' under the address and undefined-behaviour sanitizers.
# What takes longer (suite 'nightly') or needs a quiet machine is run by .ci/nightly, whose record is printed.
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

# touched PATH...: whether the last commit, or what is not committed yet, changes one of them.
touched() {
    git diff --quiet HEAD~1 -- "$@" 2>/dev/null
    [ $? -eq 1 ]
}

# run DIRECTORY OPTION...: build what its tests need, and run them.  Their limits of time are for what hangs: ten
# times as long as is enough on a quiet machine.  Three tests share two processors: those of signals
# and of what waits for another rank sleep for half of their time and more.
run() {
    meson test -C "$1" --print-errorlogs -t 10 --num-processes $(($(nproc) * 3 / 2)) "${@:2}"
    printf '%s: %d s since the start\n' "$1" "$SECONDS"
}

for build in "${builds[@]}"; do
    rm -f "$build/meson-logs/testlog.json"
done

# What only .ci/nightly runs is compiled, too, where what it includes is touched, and run where it may differ.
nightly=(--no-suite nightly)
touched exec/cuda exec/step tests/cuda && nightly=()
export FORETRAIN_TEST_NETWORKS=2
./setup.sh tests notebooks ${CI:+developers} &&
    if touched core exec models tests/cuda tests/exec tests/gpu; then ninja -C build; fi &&
    run build "${nightly[@]}"

configure build-bare -Dauto_features=disabled ${CI:+-Dwerror=true} -Dbuildtype=debug &&
    run build-bare --suite parts

export FORETRAIN_TEST_NETWORKS=1
configure build-sanitized -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 \
    -Dcuda=disabled -Dwasm=disabled -Dc_args="-fno-sanitize-recover=all -g1" &&
    run build-sanitized --no-suite once

echo
/usr/bin/python3 tools/test_summary.py --nightly tests/nightly.json "${builds[@]}"
