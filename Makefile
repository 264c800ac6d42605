# `make demo` trains a small Llama 3; `make test` checks everything. Both install what is missing first.

.PHONY: setup build demo demo-ascend test fmt clippy bench check-cann-headers check-ascend-kernels clean

build: setup
	cargo build --release --workspace
	@scripts/host_cann.sh --built >/dev/null

# Installs the LLVM and MLIR packages this machine lacks.
setup:
	@scripts/setup.sh

# From a torchtitan configuration to a falling loss, on two ranks.
demo: setup
	cargo build --release
	target/release/titanc build examples/llama3_debug.toml -o llama3_debug.titan
	target/release/titan-run llama3_debug.titan --nodes 2

# The same step on Ascend devices that the host simulates: beside the CPU, captured and not, in any order, and broken on purpose.
demo-ascend: setup
	cargo build --release
	target/release/prove_ascend

test: setup
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets -- -D warnings
	@scripts/host_cann.sh >/dev/null
	cargo test --release --workspace

fmt:
	cargo fmt --all

clippy: setup
	cargo clippy --release --workspace --all-targets -- -D warnings

# Time and memory of whole programs; TORCH=PYTHON adds PyTorch's to the table of the training step.
bench: setup
	cargo build --release
	target/release/build_time
	target/release/train_step $(if $(TORCH),--torch $(TORCH))

# Compares the table of CANN's functions with the vendor's headers: those of CANN_INCLUDE=FOLDER, a toolkit's include
# folder (several with spaces between), or else those in the torch-npu wheel, which pip downloads into a cache.
check-cann-headers:
	@scripts/check_cann_headers.sh $(CANN_INCLUDE)

# Gives every generated kernel to the vendor's device compiler, which pip downloads into a cache (or which ASCENDNPU_IR=FOLDER, an installed
# package `ascendnpuir`, holds), and simulates what it makes of small ones.
check-ascend-kernels: setup
	@scripts/check_ascend_kernels.sh $(ASCENDNPU_IR)

clean:
	cargo clean
	rm -f llama3_debug.titan
