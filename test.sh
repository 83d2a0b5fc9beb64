#!/bin/bash
# Run every test: on the full build, with every optional part off, and under sanitizers.
# The last line counts what really ran; the exit status is not 0 when anything failed.
set -u
cd "$(dirname "$0")" || exit
exec </dev/null

export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

# check TITLE DIRECTORY SETUP_OPTIONS -- TEST_OPTIONS: build in the directory and run its tests.
titles=()
check() {
    local title=$1 directory=$2 setup=()
    shift 2
    while [ "$1" != -- ]; do
        setup+=("$1")
        shift
    done
    shift
    titles+=("$title=$directory")
    printf '\n== %s\n' "$title"
    rm -f "$directory/meson-logs/testlog.json"
    if [ ! -f "$directory/build.ninja" ]; then
        meson setup "$directory" "${setup[@]}" || return
    fi
    ninja -C "$directory" && meson test -C "$directory" --no-rebuild --print-errorlogs "$@"
}

./setup.sh && check full build -- --no-suite nightly
check bare build-bare -Dauto_features=disabled -Dwerror=true -Dbuildtype=debug -- \
    --no-suite style --no-suite nightly
check sanitized build-sanitized -Db_sanitize=address,undefined -Db_lundef=false \
    -Doptimization=1 -Dc_args=-fno-sanitize-recover=all -- \
    --suite unit --suite golden --timeout-multiplier 4

/usr/bin/python3 tools/test_summary.py "${titles[@]}"
