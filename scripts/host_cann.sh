#!/bin/sh
# Makes target/release/host-cann/lib64, the host's CANN: links with the names of CANN's libraries to the one library that is all of
# them. ASCEND_HOME_PATH=target/release/host-cann, or `titan-run --cann target/release/host-cann/lib64`, selects it.
# usage: host_cann.sh [--built]   (--built: the library has just been built)
set -eu
cd "$(dirname "$0")/.."

[ "${1-}" = --built ] || cargo build --quiet --release -p host-cann
folder=${CARGO_TARGET_DIR:-target}/release/host-cann/lib64
mkdir -p "$folder"
for name in libacl_rt.so libnnopbase.so libopapi.so libhccl.so; do
    ln -sfn ../../libhost_cann.so "$folder/$name"
done
echo "${folder%/lib64}"
