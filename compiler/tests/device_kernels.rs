//! Generated kernels for Ascend: their text, what is refused and why, and how kernels are cut.
#![expect(clippy::unwrap_used, reason = "tests")]

use titan_ir::DType;
use titan_ir::ascend::{Soc, TableFill};
use titan_ir::kernel::eval::eval_row;
use titan_ir::kernel::{Access, BinaryFn, Cols, Expr, ExprId, Input, Output, RowKernel, Store, UnaryFn};
use titanc::codegen::ascend::kernel::{emit, split};

fn soc() -> &'static Soc {
    Soc::of_name("Ascend910B3").unwrap()
}

fn input(dtype: DType, access: Access) -> Input {
    Input { dtype, access }
}

fn output(dtype: DType, store: Store, value: u32) -> Output {
    Output { dtype, store, value: ExprId(value) }
}

fn binary(f: BinaryFn, a: u32, b: u32) -> Expr {
    Expr::Binary(f, ExprId(a), ExprId(b))
}

fn mul(a: u32, b: u32) -> Expr {
    binary(BinaryFn::Mul, a, b)
}

/// `x * rsqrt(sum(x^2)) * gain`, and the root.
fn rms_norm() -> RowKernel {
    RowKernel {
        cols: Cols::Static(64),
        inputs: vec![input(DType::Bf16, Access::Full), input(DType::F32, Access::Col)],
        exprs: vec![
            Expr::Load(0),
            mul(0, 0),
            Expr::RowSum(ExprId(1)),
            Expr::Unary(UnaryFn::Rsqrt, ExprId(2)),
            mul(0, 3),
            Expr::Load(1),
            mul(4, 5),
        ],
        outputs: vec![output(DType::Bf16, Store::Full, 6), output(DType::F32, Store::Row, 3)],
    }
}

/// Pairs turned by an angle that depends on the position.
fn rope() -> RowKernel {
    let table = Access::Table { row_div: 1, row_mod: 4, width: 16 };
    RowKernel {
        cols: Cols::Static(32),
        inputs: vec![input(DType::Bf16, Access::Full), input(DType::F32, table), input(DType::F32, table)],
        exprs: vec![
            Expr::Load(0),
            Expr::Load(1),
            mul(0, 1),
            Expr::SwapPairs(ExprId(0)),
            Expr::Load(2),
            mul(3, 4),
            binary(BinaryFn::Add, 2, 5),
        ],
        outputs: vec![output(DType::Bf16, Store::Full, 6)],
    }
}

#[test]
fn text_of_rms_norm() {
    insta::assert_snapshot!(emit(&rms_norm(), 128, soc()).unwrap().mlir);
}

#[test]
fn text_of_rope() {
    insta::assert_snapshot!(emit(&rope(), 8, soc()).unwrap().mlir);
}

#[test]
fn a_launch_takes_inputs_tables_and_outputs() {
    let mut kernel = rms_norm();
    kernel.exprs.push(Expr::ColIndex);
    kernel.exprs.push(mul(6, 7));
    kernel.outputs[0].value = ExprId(8);
    let device = emit(&kernel, 128, soc()).unwrap();
    assert_eq!(device.tables, [TableFill::Iota { len: 64 }]);
    let sizes: Vec<u64> = device.args.iter().map(|arg| arg.size_bytes()).collect();
    assert_eq!(sizes, [128 * 64 * 2, 64 * 4, 64 * 4, 128 * 64 * 2, 128 * 4]);
    assert_eq!(device.num_blocks, 40);
    assert!(device.symbol.len() <= 49);
    assert_ne!(device.symbol, emit(&kernel, 256, soc()).unwrap().symbol);
}

#[test]
fn what_the_device_compiler_cannot_do_is_refused_with_a_reason() {
    let reason = |rows: u64, change: &dyn Fn(&mut RowKernel)| {
        let mut kernel = rms_norm();
        change(&mut kernel);
        emit(&kernel, rows, soc()).unwrap_err().0
    };
    let sums = Store::ColSum { block_rows: 32 };
    let gather = |k: &mut RowKernel| {
        k.inputs.push(input(DType::I32, Access::Row));
        k.inputs[0].access = Access::Gather { ids: 2, num: 8 };
    };
    let chunks = |k: &mut RowKernel| {
        (k.cols, k.inputs[1].access) = (Cols::Flat { chunk: 64 }, Access::Full);
    };
    let constant = |k: &mut RowKernel| {
        k.exprs.push(Expr::Const(0));
        k.outputs.push(output(DType::F32, Store::Full, 7));
    };
    let column = |k: &mut RowKernel| k.outputs.push(output(DType::F32, Store::Full, 5));
    assert_eq!(reason(8, &gather), "gathers rows");
    assert_eq!(reason(0, &|_| ()), "has no elements");
    assert_eq!(reason(64, &|k| k.outputs[1].store = sums), "reduces along rows and along columns");
    assert_eq!(reason(8, &|k| k.cols = Cols::Static(20)), "rows are no multiple of 32 bytes");
    assert_eq!(reason(8, &|k| k.outputs[0].dtype = DType::I32), "stores integers");
    assert_eq!(reason(64, &|_| ()), "reduces rows of as many columns as there are rows");
    assert_eq!(reason(8, &constant), "stores what depends on no operand");
    assert_eq!(reason(8, &column), "stores what is the same in whole rows or columns");
    assert_eq!(reason(100, &chunks), "100 elements are no whole chunks of 64");
}

#[test]
fn pieces_compute_what_the_whole_does() {
    let mut kernel = rms_norm();
    kernel.inputs.push(input(DType::F32, Access::Row));
    kernel.exprs.extend([Expr::Load(2), mul(0, 7)]);
    kernel.outputs.insert(1, output(DType::F32, Store::ColSum { block_rows: 2 }, 8));
    let pieces = split(&kernel);
    let maps: Vec<&[usize]> = pieces.iter().map(|piece| piece.args.as_slice()).collect();
    assert_eq!(maps, [&[0, 2, 4][..], &[0, 1, 3, 5]]);

    let operand = |n: usize| -> Vec<f64> { (0..n).map(|i| (i % 13) as f64 - 5.0).collect() };
    let operands = [operand(4 * 64), operand(64), operand(4)];
    let eval = |kernel: &RowKernel, args: &[usize]| {
        let inputs: Vec<&[f64]> =
            args[..kernel.inputs.len()].iter().map(|&a| operands[a].as_slice()).collect();
        eval_row(kernel, 4, None, &inputs, true)
    };
    let whole = eval(&kernel, &[0, 1, 2]);
    for piece in &pieces {
        let outputs = eval(&piece.kernel, &piece.args);
        for (data, &arg) in outputs.iter().zip(&piece.args[piece.kernel.inputs.len()..]) {
            assert_eq!(*data, whole[arg - kernel.inputs.len()]);
        }
    }
    assert_eq!(split(&rms_norm()).len(), 1);
}
