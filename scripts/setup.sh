#!/bin/sh
# Installs what building Titan needs and this machine lacks: a C++ compiler and the development packages of LLVM and MLIR 22.
# Quick when nothing is missing. Rust itself comes from https://rustup.rs.
set -eu
cd "$(dirname "$0")/.."

llvm=/usr/lib/llvm-22
packages="g++ llvm-22-dev libmlir-22-dev libpolly-22-dev libzstd-dev zlib1g-dev libclang1-22 libclang-common-22-dev"

fail() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

missing_packages() {
    for package in $packages; do
        case "$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null)" in
        "install ok installed") ;;
        *) printf ' %s' "$package" ;;
        esac
    done
}

install_packages() {
    command -v dpkg-query >/dev/null && command -v apt-get >/dev/null || fail \
        "this system has no apt-get: install a C++ compiler and LLVM and MLIR 22 (shared and static libraries, headers) under $llvm," \
        "with zlib, zstd, libclang 22 and the headers of clang 22; on Debian 12 these are:" \
        "  $packages"
    missing=$(missing_packages)
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" = 0 ]; then
        as_root=
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        as_root=sudo
    else
        fail "missing packages, and installing them needs root. Run as root, then again here:" \
            "  apt-get update && apt-get install -y --no-install-recommends$missing"
    fi
    printf 'setup: installing%s\n' "$missing"
    $as_root apt-get update -qq || fail "apt-get update failed: is the network up?"
    # shellcheck disable=SC2086  # a list of words
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null || fail \
        "apt-get could not install:$missing" \
        "LLVM 22 is in Debian 12 (bookworm-security) and newer; for other releases see https://apt.llvm.org"
}

# Debian has no libMLIR-C.so: the C API is in static libraries over libMLIR.so. A linker script of that name joins them.
write_linker_script() {
    [ -e "$llvm/lib/libMLIR.so" ] || fail "no libMLIR.so in $llvm/lib: is another LLVM installed there?"
    new=$(mktemp)
    {
        echo "/* Debian ships no libMLIR-C.so: the C API is in static shims over libMLIR.so. \`setup\` rewrites this file. */"
        echo "GROUP ("
        # The execution engine and the tests need libraries that are not shared.
        find "$llvm/lib" -name 'libMLIRCAPI*.a' | grep -vE 'ExecutionEngine|Test' | LC_ALL=C sort
        echo "$llvm/lib/libMLIR.so $llvm/lib/libLLVM-22.so )"
    } >"$new"
    if cmp -s "$new" ld/libMLIR-C.so; then
        rm "$new"
    else
        mkdir -p ld
        chmod 644 "$new"
        mv "$new" ld/libMLIR-C.so
        echo "setup: wrote ld/libMLIR-C.so"
    fi
}

command -v cargo >/dev/null || fail "no cargo: install Rust 1.95 or newer from https://rustup.rs"
install_packages
write_linker_script
