//! Runs device kernels, and judges what they give.

use crate::bound::{self, Bounded, Device};
use crate::operands::{self, extent, from_bytes, to_bytes};
use host_bishengir::Container;
use titan_ir::DType;
use titan_ir::ascend::{DeviceKernel, Soc};

/// A kernel's operands, and what it should give.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Bytes of the inputs and tables, in the order of the arguments.
    pub inputs: Vec<Vec<u8>>,
    /// What each output should hold.
    pub expected: Vec<(DType, Vec<Bounded>)>,
}

/// How close the outputs were.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Verdict {
    /// Elements compared.
    pub num_elements: u64,
    /// Elements that were the oracle's, bit for bit.
    pub num_equal: u64,
    /// Largest relative distance, over elements of at least a thousandth.
    pub worst: f64,
}

impl Trial {
    /// Random operands.
    pub fn new(kernel: &DeviceKernel, seed: u64, device: Device) -> Self {
        let values = operands::inputs(&kernel.kernel, kernel.rows, seed);
        let slices: Vec<&[f64]> = values.iter().map(Vec::as_slice).collect();
        let (rows, len) = extent(&kernel.kernel, kernel.rows);
        let outputs = bound::eval(&kernel.kernel, rows, len, &slices, device);
        let dtypes = kernel.kernel.inputs.iter().map(|i| i.dtype);
        let inputs = dtypes.zip(&values).map(|(dtype, values)| to_bytes(dtype, values));
        let tables = kernel.tables.iter().map(|fill| to_bytes(DType::F32, &operands::table(fill)));
        let inputs = inputs.chain(tables).collect();
        let expected = kernel.kernel.outputs.iter().map(|o| o.dtype).zip(outputs).collect();
        Self { inputs, expected }
    }

    /// Compares outputs in bytes.
    ///
    /// # Errors
    /// The first element that is wrong.
    pub fn judge(&self, outputs: &[Vec<u8>]) -> Result<Verdict, String> {
        let mut verdict = Verdict::default();
        for (o, ((dtype, expected), bytes)) in self.expected.iter().zip(outputs).enumerate() {
            let actual = from_bytes(*dtype, bytes);
            if actual.len() != expected.len() {
                return Err(format!("output {o} has {} elements, not {}", actual.len(), expected.len()));
            }
            for (i, (want, &got)) in expected.iter().zip(&actual).enumerate() {
                if !want.allows(got) {
                    return Err(format!(
                        "output {o} element {i} is {got:e}, not {:e} +- {:e}",
                        want.value, want.error
                    ));
                }
                verdict.num_elements += 1;
                verdict.num_equal += u64::from(got == want.value);
                if want.value.abs() > 1e-3 && want.value.is_finite() {
                    verdict.worst = verdict.worst.max(((got - want.value) / want.value).abs());
                }
            }
        }
        Ok(verdict)
    }

    /// Bytes of each output.
    pub fn output_sizes(&self) -> impl Iterator<Item = usize> {
        self.expected.iter().map(|(dtype, values)| values.len() * dtype.size_bytes())
    }
}

/// Compiles a kernel for the host, runs it and compares.
///
/// # Errors
/// The compiler's findings, or the first element that is wrong.
pub fn on_host(kernel: &DeviceKernel, soc: &Soc, seed: u64) -> Result<Verdict, String> {
    let object = host_bishengir::compile(&kernel.mlir, soc, kernel.num_blocks)?;
    let container = Container::decode(&object).ok_or("the object is no container")?;
    let sizes: Vec<u64> = kernel.args.iter().map(|arg| arg.size_bytes()).collect();
    let described: Vec<u64> = container.description.args.iter().map(|arg| arg.size_bytes).collect();
    if sizes != described {
        return Err(format!("arguments of {described:?} bytes, not {sizes:?}"));
    }
    let trial = Trial::new(kernel, seed, Device::HOST);
    let mut outputs: Vec<Vec<u8>> = trial.output_sizes().map(|size| vec![0xCB; size]).collect();
    let inputs = trial.inputs.iter().map(|bytes| bytes.as_ptr().cast_mut());
    let pointers: Vec<*mut u8> = inputs.chain(outputs.iter_mut().map(|bytes| bytes.as_mut_ptr())).collect();
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let path = folder.path().join("kernel.so");
    std::fs::write(&path, &container.library).map_err(|e| e.to_string())?;
    // SAFETY: the library is what our compiler made: it runs nothing when loaded and defines this function, which takes as many pointers as
    // the container says, to memory of the sizes compared above. Inputs are not written.
    unsafe {
        let library = libloading::Library::new(&path).map_err(|e| e.to_string())?;
        let function = library
            .get::<unsafe extern "C" fn(*const *mut u8)>(kernel.symbol.as_bytes())
            .map_err(|e| e.to_string())?;
        function(pointers.as_ptr());
    }
    trial.judge(&outputs)
}
