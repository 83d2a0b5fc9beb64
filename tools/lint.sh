#!/bin/bash
# Run one packaged checker over the whole project.  usage: lint.sh CHECKER [MANUAL_PAGE...]
# Exit status 77 when the checker is not installed; the last line printed says so.
set -u
cd "$(dirname "$0")/.." || exit

need() {
    command -v "$1" >/dev/null && return
    echo "$1 is not installed"
    exit 77
}

# files PATTERN...: names that match, NUL after each; build and hidden directories left out.
files() {
    local name=()
    for pattern; do
        name+=(-o -name "$pattern")
    done
    find . \( -path './build*' -o -path './.?*' \) -prune \
        -o -type f \( "${name[@]:1}" \) -print0
}

scripts() {
    files '*.sh'
    printf '%s\0' .ci/*
}

case ${1-} in
clang-format)
    need clang-format-14
    files '*.c' '*.h' '*.cpp' '*.hpp' '*.cu' '*.cuh' | xargs -0 clang-format-14 --dry-run -Werror
    ;;
cppcheck)
    need cppcheck
    # POSIX, unlike C, makes NULL a pointer: it may end a variable argument list.
    files '*.c' | xargs -0 cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c11 -I . -j 2 \
        --enable=warning,performance,portability --suppress=varFuncNullUB
    ;;
shellcheck)
    need shellcheck
    scripts | xargs -0 shellcheck
    ;;
bash)
    scripts | xargs -0 -n 1 bash -n
    ;;
yamllint)
    need yamllint
    files '*.yaml' | xargs -0 yamllint --strict -c tools/yamllint.yaml
    ;;
mandoc)
    need mandoc
    # What mandoc only warns of is how scdoc writes.
    mandoc -T lint -W error "${@:2}"
    ;;
*)
    echo "usage: lint.sh clang-format|cppcheck|shellcheck|bash|yamllint|mandoc" >&2
    exit 64
    ;;
esac
