//! Random kernels: the vendor's operators give the same bits as the kernel, but for the order of column sums.

use crate::generate::generate;
use crate::image::Case;
use crate::lowered::soc;
use crate::memory::Memory;
use crate::ranks::{self, Order};
use titan_ir::ascend::{Access as Use, Element, TensorArg};
use titan_ir::kernel::eval::eval_row;
use titan_ir::kernel::{Access, BinaryFn, Cols, Expr, ExprId, RowKernel, Store};
use titan_ir::plan::{Action, Address, Arena, Domain, Instr, Plan, Segment};
use titan_ir::{DType, Mesh};
use titanc::codegen::ascend::{self, KernelStyle, Options};

/// The kernel with `a * b + c` rounded twice: operators do.
fn without_fma(kernel: &RowKernel) -> RowKernel {
    let mut to: Vec<ExprId> = Vec::new();
    let mut exprs = Vec::new();
    for expr in &kernel.exprs {
        let mut push = |expr| {
            exprs.push(expr);
            ExprId(exprs.len() as u32 - 1)
        };
        let id = match expr.map(|a| to[a.index()]) {
            Expr::Fma(a, b, c) => {
                let product = push(Expr::Binary(BinaryFn::Mul, a, b));
                push(Expr::Binary(BinaryFn::Add, product, c))
            }
            other => push(other),
        };
        to.push(id);
    }
    let mut outputs = kernel.outputs.clone();
    outputs.iter_mut().for_each(|o| o.value = to[o.value.index()]);
    RowKernel { exprs, outputs, ..kernel.clone() }
}

fn address(offset_bytes: u64) -> Address {
    Address { arena: Arena::Step, offset_bytes }
}

/// A plan of one launch; per operand its offset.
fn plan(kernel: &RowKernel, extent: u64, in_place: &[Option<usize>]) -> (Plan, Vec<u64>) {
    let (rows, len, domain) = match kernel.cols {
        Cols::Static(cols) => (extent, None, Domain::Rows { rows: extent, cols, grain: 1 }),
        Cols::Flat { chunk } => (1, Some(extent), Domain::Flat { len: extent, chunk }),
    };
    let signature = kernel.signature(rows, len);
    let mut offsets: Vec<u64> = Vec::new();
    let mut end = 0;
    for (k, (dtype, elements)) in signature.ins.iter().chain(&signature.outs).enumerate() {
        let over = k.checked_sub(signature.ins.len()).and_then(|o| in_place[o]);
        offsets.push(over.map_or(end, |input| offsets[input]));
        if over.is_none() {
            end += (elements * dtype.size_bytes() as u64).next_multiple_of(64);
        }
    }
    let args = offsets.iter().map(|&at| address(at)).collect();
    let instr = Instr {
        action: Action::Launch { kernel: 0, args, domain },
        stream: 0,
        loc: 0,
        phase: titan_ir::Phase::Forward,
        flops: 0,
        traffic_bytes: 0,
    };
    let segment = Segment { name: "step".to_owned(), repeat: 1, instrs: vec![instr] };
    (Plan { step_bytes: end, segments: vec![segment], ..Plan::default() }, offsets)
}

fn view(dtype: DType, elements: usize, at: u64) -> TensorArg {
    TensorArg::contiguous(Element::from(dtype), &[elements as u64], at, Use::Update)
}

/// The same kernel over more rows or elements: operands are repeated.
fn enlarged(mut case: Case) -> Case {
    let is_flat = matches!(case.kernel.cols, Cols::Flat { .. });
    case.extent = if is_flat { 5000 } else { 53 };
    let (rows, len) = if is_flat { (1, Some(case.extent)) } else { (case.extent, None) };
    let signature = case.kernel.signature(rows, len);
    for (data, (_, elements)) in case.inputs.iter_mut().zip(signature.ins) {
        if data.is_empty() {
            data.push(1.0);
        }
        *data = data.iter().copied().cycle().take(elements as usize).collect();
    }
    case
}

/// Runs the operators of a kernel, and compares.
fn check(seed: u64, case: &Case, scratch_bytes: u64) -> usize {
    let (plan, offsets) = plan(&case.kernel, case.extent, &case.in_place);
    let options = Options { soc: soc(), style: KernelStyle::Aclnn, workspace_bytes: Some(0) };
    let mut table = ascend::KernelTable::new();
    let kernels = [case.kernel.clone()];
    let program = ascend::lower_within(&plan, &kernels, &options, &mut table, scratch_bytes).unwrap();
    let mut memory = Memory::new(program.arena_bytes);
    for ((input, data), at) in case.kernel.inputs.iter().zip(&case.inputs).zip(&offsets) {
        memory.write(&view(input.dtype, data.len(), program.step.at + at), data);
    }
    let memories = std::slice::from_mut(&mut memory);
    ranks::run(&program, &table.into_kernels(), soc(), &Mesh::default(), Order::Late, memories);

    let kernel = without_fma(&case.kernel);
    let slices: Vec<&[f64]> = case.inputs.iter().map(Vec::as_slice).collect();
    let len = matches!(kernel.cols, Cols::Flat { .. }).then_some(case.extent);
    let expected = eval_row(&kernel, case.extent, len, &slices, true);
    for (o, (output, expected)) in kernel.outputs.iter().zip(&expected).enumerate() {
        let at = program.step.at + offsets[kernel.inputs.len() + o];
        let actual = memory.read(&view(output.dtype, expected.len(), at));
        for (i, (a, e)) in actual.iter().zip(expected).enumerate() {
            let same = a == e || (a.is_nan() && e.is_nan());
            let is_sum = matches!(output.store, Store::ColSum { .. });
            let close = is_sum && ((a - e).abs() <= 1e-3 * (1.0 + e.abs()) || !e.is_finite());
            assert!(same || close, "seed {seed}: output {o} element {i} is {a} not {e}\n{:#?}", case.kernel);
        }
    }
    program.submissions().count()
}

#[test]
fn random_kernels_become_operators_that_compute_the_same() {
    let (mut num_checked, mut num_cut) = (0, 0);
    for seed in 0..400 {
        let case = generate(seed).case;
        if case.kernel.inputs.iter().any(|i| i.access == Access::Tile) {
            continue;
        }
        check(seed, &case, 1 << 20);
        let large = enlarged(case);
        let whole = check(seed, &large, 1 << 30);
        num_cut += u32::from(check(seed, &large, 4096) > whole);
        num_checked += 1;
    }
    assert!(num_checked > 150 && num_cut > 50, "{num_checked} kernels checked, {num_cut} of them in blocks");
}
