#!/bin/bash
# Run every test: on the full build, with every optional part off, and under the address and
# undefined-behaviour sanitizers.
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

# run DIRECTORY OPTION...: build it and run its tests.
run() {
    ninja -C "$1" && meson test -C "$1" --no-rebuild --print-errorlogs "${@:2}"
}

for build in "${builds[@]}"; do
    rm -f "$build/meson-logs/testlog.json"
done

./setup.sh &&
    run build

configure build-bare -Dauto_features=disabled -Dwerror=true -Dbuildtype=debug &&
    run build-bare --no-suite style

configure build-sanitized -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 \
    -Dc_args=-fno-sanitize-recover=all &&
    run build-sanitized --no-suite style --timeout-multiplier 4

echo
/usr/bin/python3 tools/test_summary.py "${builds[@]}"
