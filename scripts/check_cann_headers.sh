#!/bin/sh
# Compares the table of CANN's C interface with the vendor's headers, which this project may not hold.
# usage: check_cann_headers.sh [INCLUDE_FOLDER...]
# Without folders the headers in the torch-npu wheel are used; they have the ACL runtime and HCCL, but no operators.
set -eu
cd "$(dirname "$0")/.."

wheel=torch-npu==2.14.0
# Outside the project, so that no header can be committed.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/titan/torch-npu-2.14.0

fetch() {
    echo "downloading $wheel with pip into $cache"
    mkdir -p "$cache"
    # The tags of one wheel that exists: the headers are the same in all, and any interpreter may be running.
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --python-version 3.11 \
        --platform manylinux_2_28_x86_64 --dest "$cache" "$wheel"
    python3 - "$cache" <<'PYTHON'
import glob, sys, zipfile
cache = sys.argv[1]
with zipfile.ZipFile(glob.glob(cache + "/torch_npu-*.whl")[0]) as wheel:
    kept = ("torch_npu/include/third_party/acl/", "torch_npu/include/third_party/hccl/")
    wheel.extractall(cache, [name for name in wheel.namelist() if name.startswith(kept)])
PYTHON
    rm -f "$cache"/*.whl
}

if [ $# -eq 0 ]; then
    include=$cache/torch_npu/include
    [ -f "$include/third_party/hccl/inc/hccl/hccl.h" ] || fetch
    set -- "$include" "$include/third_party/acl/inc" "$include/third_party/hccl/inc"
fi
exec cargo run --quiet --release -p ascend-rs-table --bin check-cann-headers -- "$@"
