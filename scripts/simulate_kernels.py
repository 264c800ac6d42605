"""Runs kernels as the vendor's compiler left them, on the CPU.

usage: simulate_kernels.py SIMULATOR_FOLDER WORK_FOLDER < JOBS
A job is a line of JSON: {"name", "hivm", "symbol", "blocks", "reverse", "args": [{"file", "dims", "size_bytes", "write", "over"}]}. Arguments with
"write" are filled with rubbish before and written to their file after; with "over" they lie where that argument does. The answer to each is a
line of JSON: {"name", "error"}, without an error if it ran. SIMULATOR_FOLDER holds hivm2cpu.py, which turns the text into a library.
"""
import ctypes
import json
import os
import subprocess
import sys

simulator, work = sys.argv[1:3]
sys.path.insert(0, simulator)
import hivm2cpu

# The simulator links every kernel with this object, which it makes of its own source unless it is there already: ours holds more functions.
library = os.path.join(os.path.dirname(os.path.abspath(__file__)), "device_library.cpp")
options = ["-O2", "-march=native", "-fPIC", "-fno-fast-math", "-ffp-contract=off"]
subprocess.run(["g++", *options, "-I", simulator, "-c", library, "-o", os.path.join(work, "rt.o")], check=True)


def descriptor(memory, dims):
    """What MLIR passes for a tensor: pointers, offset, sizes, strides."""
    strides = [1] * len(dims)
    for i in range(len(dims) - 1, 0, -1):
        strides[i - 1] = strides[i] * dims[i]
    address = ctypes.addressof(memory)
    return (ctypes.c_int64 * (3 + 2 * len(dims)))(address, address, 0, *dims, *strides)


def memories(args):
    held = []
    for arg in args:
        if arg["over"] is not None:
            held.append(held[arg["over"]])
        elif arg["write"]:
            held.append((ctypes.c_ubyte * arg["size_bytes"])(*([0xCB] * arg["size_bytes"])))
        else:
            with open(arg["file"], "rb") as file:
                held.append((ctypes.c_ubyte * arg["size_bytes"]).from_buffer_copy(file.read()))
    return held


def run(job):
    path, _ = hivm2cpu.build(job["hivm"], work)
    library = ctypes.CDLL(path)
    function = getattr(library, "_mlir_ciface_" + job["symbol"])
    held = memories(job["args"])
    descriptors = [descriptor(memory, arg["dims"]) for memory, arg in zip(held, job["args"])]
    blocks = range(job["blocks"])
    for block in reversed(blocks) if job["reverse"] else blocks:
        library.sim_set(ctypes.c_int64(block), ctypes.c_int64(0))
        function(*[ctypes.byref(d) for d in descriptors])
    need, have = ctypes.c_int64(), ctypes.c_int64()
    library.sim_overflows.restype = ctypes.c_int64
    if library.sim_overflows(ctypes.byref(need), ctypes.byref(have)):
        return f"a tile needs {need.value} bytes, its buffer has {have.value}"
    for memory, arg in zip(held, job["args"]):
        if arg["write"]:
            with open(arg["file"], "wb") as file:
                file.write(memory)
    return None


for line in sys.stdin:
    job = json.loads(line)
    try:
        error = run(job)
    except SystemExit as e:
        error = str(e)
    except Exception as e:
        error = repr(e)
    print(json.dumps({"name": job["name"], "error": error}), flush=True)
