#!/bin/sh
# Gives the generated kernels of every example to the vendor's device compiler and looks at what it makes of them.
# usage: check_ascend_kernels.sh [PACKAGE_FOLDER]
# Without a folder the Python package is downloaded. Its compiler does everything but the last step, machine code, which is a closed program of
# CANN's: that one is played by a script that passes on what it is given.
set -eu
cd "$(dirname "$0")/.."

wheel=ascendnpu-ir==1.2.0
# Outside the project, so that no binary can be committed.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/titan/ascendnpu-ir-1.2.0
simulator=../shared/bishengir_examples/cpusim

fetch() {
    echo "downloading $wheel with pip into $cache"
    mkdir -p "$cache"
    # The tags of one wheel that exists: the programs are the same in all, and any interpreter may be running.
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --python-version 3.11 \
        --platform manylinux_2_28_x86_64 --dest "$cache" "$wheel"
    python3 -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])' "$cache"/ascendnpu_ir-*.whl "$cache"
    chmod +x "$cache"/ascendnpuir/bin/*
    rm -f "$cache"/*.whl
}

if [ $# -eq 0 ]; then
    [ -x "$cache/ascendnpuir/bin/bishengir-compile" ] || fetch
    set -- "$cache/ascendnpuir"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/hivmc" <<'STUB'
#!/bin/sh
# Stands in for the vendor's back end: answers for its version, copies its input.
if [ "$1" = "--version" ]; then echo "hivmc 0.3.0 (0123456789ab 2026-07-29)"; exit 0; fi
input=$1
while [ "$1" != "-o" ]; do shift; done
cp "$input" "$2"
STUB
cp "$work/hivmc" "$work/hivmc-a5"
chmod +x "$work/hivmc" "$work/hivmc-a5"

if [ ! -f "$simulator/hivm2cpu.py" ]; then
    echo "simulation skipped: no ../shared"
elif ! command -v mlir-opt-19 > /dev/null; then
    echo "simulation skipped: no mlir-opt-19 (apt-get install mlir-19-tools)"
else
    set -- "$@" --simulator "$simulator"
fi
BISHENG_INSTALL_PATH=$work
export BISHENG_INSTALL_PATH
cargo run --quiet --release -p titan-kernel-tests --bin check-ascend-kernels -- "$@"
