//! Attention.

use super::BLOCK;
use super::mask::Mask;
use super::settings::{Attributes, Problem};
use crate::fault::Fault;
use crate::operators::args::Args;
use crate::operators::compute::{DType, View, matmul};
use crate::operators::plan::Plan;

pub(super) fn forward(args: &mut Args, version: u8) -> Result<Plan, Fault> {
    let [query, key, value] = [args.input("query")?, args.input("key")?, args.input("value")?];
    args.absent("realShiftOptional")?;
    args.absent("dropMaskOptional")?;
    args.absent("paddingMaskOptional")?;
    let mask = args.optional_input("attenMaskOptional")?;
    if version >= 3 {
        args.absent("sinkOptional")?;
    }
    let attributes = Attributes::take(args, version)?;
    let (max, sum) = (args.output("softmaxMaxOut")?, args.output("softmaxSumOut")?);
    let (_unused, out) = (args.optional_output("softmaxOutOut")?, args.output("attentionOutOut")?);
    let problem = Problem::check(args, &attributes, [&query, &key, &value], mask.as_ref())?;
    problem.check_statistic(&max)?;
    problem.check_statistic(&sum)?;
    out.is_typed_as(&query)?;
    out.is_shaped_as(&query)?;
    args.plan(problem.workspace_bytes(), move |launch| {
        let [q_bnsd, k_bntd, v_bntd, out_bnsd] =
            [&query, &key, &value, &out].map(|tensor| problem.heads_of(launch, tensor));
        let mask = problem.mask(launch.view(&mask));
        mask.verify()?;
        for batch in 0..problem.batch {
            for kv_head in 0..problem.kv_heads {
                let (k, v): (Vec<f32>, Vec<f32>) = (
                    k_bntd.at(0, batch).at(0, kv_head).to_vec(),
                    v_bntd.at(0, batch).at(0, kv_head).to_vec(),
                );
                let group = problem.heads / problem.kv_heads;
                for head in kv_head * group..(kv_head + 1) * group {
                    let of_head = |view: &View| view.at(0, batch).at(0, head);
                    let head = Head { problem: &problem, mask: &mask, batch, head, k: &k, v: &v };
                    head.run(
                        &of_head(&q_bnsd),
                        [&of_head(&launch[&max]), &of_head(&launch[&sum])],
                        &of_head(&out_bnsd),
                    );
                }
            }
        }
        Ok::<(), Fault>(())
    })
}

/// One head of one sequence.
struct Head<'a> {
    problem: &'a Problem,
    mask: &'a Mask<'a>,
    batch: usize,
    head: usize,
    /// Keys and values in f32.
    k: &'a [f32],
    v: &'a [f32],
}

impl Head<'_> {
    fn run(&self, q_sd: &View, [max_sr, sum_sr]: [&View; 2], out_sd: &View) {
        let (queries, width) = (self.problem.queries, self.problem.width);
        for first in (0..queries).step_by(BLOCK) {
            let rows = BLOCK.min(queries - first);
            let (mut p_st, statistics) = self.probabilities(&q_sd.sliced(0, first, rows), first);
            let keys = p_st.len() / rows;
            let mut out = vec![0.0; rows * width];
            if keys > 0 {
                let v_td = dense(&self.v[..keys * width], &[keys, width]);
                matmul(&View::of_f32(&mut p_st, &[rows, keys]), &v_td, &mut out);
            }
            for (row, &(_, sum)) in out.chunks_mut(width).zip(&statistics) {
                // A NaN among the scores must reach the result.
                let scale = if sum == 0.0 { 0.0 } else { 1.0 / sum };
                row.iter_mut().for_each(|x| *x *= scale);
            }
            out_sd.sliced(0, first, rows).assign(&out);
            let repeated = |pick: fn(&(f32, f32)) -> f32| -> Vec<f32> {
                statistics.iter().flat_map(|row| [pick(row); super::REPEATS]).collect()
            };
            max_sr.sliced(0, first, rows).assign(&repeated(|row| row.0));
            sum_sr.sliced(0, first, rows).assign(&repeated(|row| row.1));
        }
    }

    /// Exponentials of a block of scores, not yet divided by their sums, and each row's maximum and sum.
    fn probabilities(&self, q_sd: &View, first: usize) -> (Vec<f32>, Vec<(f32, f32)>) {
        let (rows, width) = (q_sd.dims[0], self.problem.width);
        let keys = (first..first + rows).map(|query| self.mask.window(query).end).max().unwrap_or(0);
        let mut p_st = vec![0.0; rows * keys];
        if keys == 0 {
            return (p_st, vec![(f32::MIN, 0.0); rows]);
        }
        let k_dt = dense(&self.k[..keys * width], &[keys, width]).permuted(&[1, 0]);
        matmul(q_sd, &k_dt, &mut p_st);
        let mut masked = vec![0.0f32; self.problem.keys];
        let softmax = |(row, p_t): (usize, &mut [f32])| {
            let query = first + row;
            let is_masked = self.mask.row(self.batch, self.head, query, &mut masked);
            let window = self.mask.window(query);
            let mut max = f32::NEG_INFINITY;
            for (key, p) in p_t.iter_mut().enumerate() {
                let visible = window.contains(&key) && !(is_masked && masked[key] != 0.0);
                *p = if visible { *p * self.problem.scale } else { f32::NEG_INFINITY };
                max = max.max(*p);
            }
            if max == f32::NEG_INFINITY {
                p_t.fill(0.0);
                return (f32::MIN, 0.0);
            }
            let mut parts = [0.0f32; 8];
            for (i, p) in p_t.iter_mut().enumerate() {
                let exponential = (*p - max).exp();
                parts[i % 8] += exponential;
                *p = self.problem.rounded(exponential);
            }
            (max, parts.iter().sum())
        };
        let statistics = p_st.chunks_mut(keys).enumerate().map(softmax).collect();
        (p_st, statistics)
    }
}

/// A view of values that are only read.
pub(super) fn dense(values: &[f32], dims: &[usize]) -> View {
    View::contiguous(DType::F32, dims, values.as_ptr() as usize)
}
