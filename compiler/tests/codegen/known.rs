//! Kernels of a training step: close to their meaning in f64, the same bits at every level, and their MLIR as snapshots.

use super::generate::Rng;
use super::image::{Case, Mapped, Split};
use titan_ir::DType::{self, Bf16, F32, I32};
use titan_ir::kernel::eval::eval_row;
use titan_ir::kernel::fragment::Result as Out;
use titan_ir::kernel::{Access, Cols, Expr, FragmentBuilder, Output, RowKernel, Store, UnaryFn};
use titanc::codegen::cpu::{CpuLevel, compile, compile_on, mlir_text};

/// The kernel of one fragment.
fn kernel(builder: FragmentBuilder, chunk: Option<u64>) -> RowKernel {
    let fragment = builder.finish();
    let cols = chunk.map_or(Cols::Static(fragment.cols), |chunk| Cols::Flat { chunk });
    let outputs = fragment.results.iter().map(|&(out, dtype, value)| {
        let store = match out {
            Out::Full => Store::Full,
            Out::Row => Store::Row,
            Out::ColSum | Out::AllSum => Store::ColSum { block_rows: 4 },
        };
        Output { dtype, store, value }
    });
    RowKernel { cols, outputs: outputs.collect(), inputs: fragment.inputs, exprs: fragment.exprs }
}

fn rms_norm(cols: u64, dtype: DType) -> RowKernel {
    let mut b = FragmentBuilder::rows(1, cols);
    let x = b.input(dtype, Access::Full);
    let weight = b.input(dtype, Access::Col);
    let square = b.mul(x, x);
    let sum = b.row_sum(square);
    let scale = b.constant(1.0 / cols as f32);
    let mean = b.mul(sum, scale);
    let eps = b.constant(1e-5);
    let biased = b.add(mean, eps);
    let inverse = b.unary(UnaryFn::Rsqrt, biased);
    let normal = b.mul(x, inverse);
    let result = b.mul(normal, weight);
    b.result(Out::Full, dtype, result);
    b.result(Out::Row, F32, inverse);
    kernel(b, None)
}

fn swiglu(cols: u64, dtype: DType) -> RowKernel {
    let mut b = FragmentBuilder::rows(1, cols);
    let gate = b.input(dtype, Access::Full);
    let up = b.input(dtype, Access::Full);
    let sigmoid = b.unary(UnaryFn::Sigmoid, gate);
    let mut silu = b.mul(gate, sigmoid);
    if dtype == Bf16 {
        silu = b.unary(UnaryFn::RoundBf16, silu);
    }
    let result = b.mul(silu, up);
    b.result(Out::Full, dtype, result);
    kernel(b, None)
}

/// The loss of each row and the gradient of the logits, in place.
fn cross_entropy(cols: u64, dtype: DType) -> RowKernel {
    let mut b = FragmentBuilder::rows(1, cols);
    let logits = b.input(dtype, Access::Full);
    let label = b.input(I32, Access::Row);
    let max = b.row_max(logits);
    let shifted = b.sub(logits, max);
    let exp = b.unary(UnaryFn::Exp, shifted);
    let sum = b.row_sum(exp);
    let log = b.unary(UnaryFn::Log, sum);
    let (column, zero, one) = (b.col_index(), b.constant(0.0), b.constant(1.0));
    let chosen = b.select_eq(column, label, shifted, zero);
    let chosen = b.row_sum(chosen);
    let loss = b.sub(log, chosen);
    let p = b.div(exp, sum);
    let hot = b.select_eq(column, label, one, zero);
    let gradient = b.sub(p, hot);
    b.result(Out::Full, dtype, gradient);
    b.result(Out::Row, F32, loss);
    kernel(b, None)
}

/// Operands p, g, m, v, learning rate; p, m and v are updated in place.
fn adamw(chunk: u64) -> RowKernel {
    let mut b = FragmentBuilder::elastic(chunk);
    let [p, g, m, v] = [0; 4].map(|_| b.input(F32, Access::Full));
    let rate = b.input(F32, Access::Scalar);
    let [beta1, one_minus1, beta2, one_minus2, eps, decay] =
        [0.9, 0.1, 0.95, 0.05, 1e-8, 0.1].map(|x| b.constant(x));
    let (m, m_part) = (b.mul(m, beta1), b.mul(g, one_minus1));
    let m = b.add(m, m_part);
    let g_squared = b.mul(g, g);
    let (v, v_part) = (b.mul(v, beta2), b.mul(g_squared, one_minus2));
    let v = b.add(v, v_part);
    let root = b.unary(UnaryFn::Sqrt, v);
    let root = b.add(root, eps);
    let step = b.div(m, root);
    let decayed = b.mul(p, decay);
    let change = b.add(step, decayed);
    let change = b.mul(rate, change);
    let p = b.sub(p, change);
    for x in [p, m, v] {
        b.result(Out::Full, F32, x);
    }
    kernel(b, Some(chunk))
}

/// Interleaved rotary embedding of `heads` heads of `head_dim`, and the sums of its columns.
fn rope(heads: u64, head_dim: u64, tokens: u64) -> RowKernel {
    let mut b = FragmentBuilder::rows(1, heads * head_dim);
    let x = b.input(Bf16, Access::Full);
    let table = Access::Table { row_div: 1, row_mod: tokens, width: head_dim };
    let (cos, sin) = (b.input(F32, table), b.input(F32, table));
    let swapped = b.swap_pairs(x);
    let (straight, crossed) = (b.mul(x, cos), b.mul(swapped, sin));
    let result = b.add(straight, crossed);
    b.result(Out::Full, Bf16, result);
    b.result(Out::ColSum, F32, result);
    kernel(b, None)
}

fn values(rng: &mut Rng, dtype: DType, len: u64) -> Vec<f64> {
    (0..len).map(|_| dtype.round(4.0 * rng.unit())).collect()
}

fn positive(rng: &mut Rng, len: u64) -> Vec<f64> {
    values(rng, F32, len).into_iter().map(f64::abs).collect()
}

/// Cases of `rows` rows (flat: a vector) with an odd width and one of whole blocks.
fn cases() -> Vec<Case> {
    let rng = &mut Rng(7);
    let mut cases = vec![];
    let rows = 5;
    for cols in [61, 128, 2048] {
        for dtype in [F32, Bf16] {
            let full = rows * cols;
            let inputs = vec![values(rng, dtype, full), values(rng, dtype, cols)];
            let kernel = rms_norm(cols, dtype);
            cases.push(Case { kernel, extent: rows, inputs, in_place: vec![None, None] });
            let inputs = vec![values(rng, dtype, full), values(rng, dtype, full)];
            cases.push(Case { kernel: swiglu(cols, dtype), extent: rows, inputs, in_place: vec![Some(1)] });
            let labels = (0..rows).map(|_| rng.below(cols) as f64).collect();
            let inputs = vec![values(rng, dtype, full), labels];
            let kernel = cross_entropy(cols, dtype);
            cases.push(Case { kernel, extent: rows, inputs, in_place: vec![Some(0), None] });
        }
    }
    for (heads, head_dim) in [(4, 16), (3, 6), (2, 64), (2, 24), (3, 2)] {
        let inputs = vec![
            values(rng, Bf16, rows * heads * head_dim),
            values(rng, F32, 3 * head_dim),
            values(rng, F32, 3 * head_dim),
        ];
        let kernel = rope(heads, head_dim, 3);
        cases.push(Case { kernel, extent: rows, inputs, in_place: vec![Some(0), None] });
    }
    for len in [64, 1000] {
        let mut inputs: Vec<Vec<f64>> = (0..3).map(|_| values(rng, F32, len)).collect();
        inputs.extend([positive(rng, len), vec![1e-3]]);
        let in_place = vec![Some(0), Some(2), Some(3)];
        cases.push(Case { kernel: adamw(256), extent: len, inputs, in_place });
    }
    cases
}

#[test]
fn kernels_of_a_step_are_close_to_their_meaning_and_alike_at_every_level() {
    let cases = cases();
    let kernels: Vec<RowKernel> = cases.iter().map(|c| c.kernel.clone()).collect();
    let host = CpuLevel::host().unwrap();
    let levels: Vec<_> = CpuLevel::ALL.into_iter().filter(|&level| level <= host).collect();
    let images: Vec<_> = levels.iter().map(|&level| Mapped::new(compile(&kernels, level))).collect();
    for (k, case) in cases.iter().enumerate() {
        let inputs: Vec<&[f64]> = case.inputs.iter().map(Vec::as_slice).collect();
        let len = matches!(case.kernel.cols, Cols::Flat { .. }).then_some(case.extent);
        let exact = eval_row(&case.kernel, case.extent, len, &inputs, false);
        let first = case.run(&images[0], k, Split::NONE);
        for (o, (exact, actual)) in exact.iter().zip(&first).enumerate() {
            // Rounding of a few f32 operations on values up to 10, and one or two to bf16.
            let has_bf16 = case.kernel.exprs.iter().any(|e| matches!(e, Expr::Unary(UnaryFn::RoundBf16, _)));
            let relative = if case.kernel.outputs[o].dtype == Bf16 || has_bf16 { 1e-2 } else { 3e-6 };
            for (e, (&x, &y)) in exact.iter().zip(actual).enumerate() {
                let scale = x.abs().max(1.0);
                assert!((x - y).abs() <= relative * scale, "case {k} output {o} element {e}: {y} not {x}");
            }
        }
        for (image, level) in images.iter().zip(&levels) {
            for split in [Split::NONE, Split { rows: 1, cols: 16 }, Split { rows: 2, cols: 64 }] {
                assert_eq!(first, case.run(image, k, split), "case {k}: {level} {split:?} differs");
            }
        }
    }
}

#[test]
fn images_do_not_depend_on_threads_or_repetition() {
    let kernels: Vec<RowKernel> = cases().into_iter().map(|c| c.kernel).collect();
    for level in CpuLevel::ALL {
        let image = compile_on(&kernels, level, 1);
        assert_eq!(image, compile_on(&kernels, level, 3));
        assert_eq!(image.bytes.len() % 4096, 0);
        assert_eq!(image.entries.len(), kernels.len());
        // The code of a kernel does not depend on its neighbours.
        let alone = compile_on(&kernels[1..2], level, 1);
        let start = image.entries[1] as usize;
        let code = image.entries[2] as usize - start;
        assert_eq!(image.bytes[start..start + code], alone.bytes[..code]);
    }
}

#[test]
fn an_image_of_nothing_is_empty() {
    let image = compile(&[], CpuLevel::V3);
    assert!(image.bytes.is_empty() && image.entries.is_empty());
}

#[test]
fn mlir_of_rms_norm() {
    insta::assert_snapshot!(mlir_text(&rms_norm(96, F32), CpuLevel::V4));
}

#[test]
fn mlir_of_swiglu_bf16() {
    insta::assert_snapshot!(mlir_text(&swiglu(128, Bf16), CpuLevel::V4));
}

#[test]
fn mlir_of_adamw() {
    insta::assert_snapshot!(mlir_text(&adamw(4096), CpuLevel::V4));
}
