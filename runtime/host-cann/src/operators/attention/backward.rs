//! The gradient of attention, from the maxima and sums of the forward operator.

use super::forward::dense;
use super::mask::Mask;
use super::settings::{Attributes, Problem};
use super::{BLOCK, REPEATS};
use crate::fault::Fault;
use crate::operators::args::Args;
use crate::operators::compute::{Order, View, matmul};
use crate::operators::plan::Plan;

pub(super) fn backward(args: &mut Args, version: u8) -> Result<Plan, Fault> {
    let (query, key, value, dy) =
        (args.input("query")?, args.input("keyIn")?, args.input("value")?, args.input("dy")?);
    // The third version calls optional parameters by their plain names.
    let name = |plain: &str| if version >= 3 { plain.to_owned() } else { format!("{plain}Optional") };
    for unused in ["pseShift", "dropMask", "paddingMask"] {
        args.absent(&name(unused))?;
    }
    let mask = args.optional_input(&name("attenMask"))?;
    let (max, sum) = (args.input(&name("softmaxMax"))?, args.input(&name("softmaxSum"))?);
    args.absent(&name("softmaxIn"))?;
    let out = args.input(&name("attentionIn"))?;
    if version >= 3 {
        args.absent("sinkIn")?;
    }
    let attributes = Attributes::take(args, version)?;
    let (dq, dk, dv) = (args.output("dqOut")?, args.output("dkOut")?, args.output("dvOut")?);
    let _unused = args.optional_output("dpseOut")?;
    if version >= 3 {
        let _unused = args.optional_output("dsinkOut")?;
    }
    let problem = Problem::check(args, &attributes, [&query, &key, &value], mask.as_ref())?;
    problem.check_statistic(&max)?;
    problem.check_statistic(&sum)?;
    for (tensor, like) in [(&dy, &query), (&out, &query), (&dq, &query), (&dk, &key), (&dv, &value)] {
        tensor.is_typed_as(like)?;
        tensor.is_shaped_as(like)?;
    }
    let sums_bytes = (query.view.num_elements() + 2 * key.view.num_elements()) * 4;
    args.plan(problem.workspace_bytes() + sums_bytes, move |launch| {
        let [q, k, v, dy, out, dq, dk, dv] =
            [&query, &key, &value, &dy, &out, &dq, &dk, &dv].map(|tensor| problem.heads_of(launch, tensor));
        let mask = problem.mask(launch.view(&mask));
        mask.verify()?;
        let group = problem.heads / problem.kv_heads;
        for batch in 0..problem.batch {
            for kv_head in 0..problem.kv_heads {
                let of = |view: &View, head: usize| view.at(0, batch).at(0, head);
                let mut keys = Keys::new(&problem, &mask, batch, &of(&k, kv_head), &of(&v, kv_head));
                for place in launch.order.indices(group) {
                    let head = kv_head * group + place;
                    let [q, dy, out, dq] = [&q, &dy, &out, &dq].map(|view| of(view, head));
                    let [max, sum] = [&max, &sum].map(|tensor| of(&launch[tensor], head));
                    keys.add(head, [&q, &dy, &out, &max, &sum], &dq, launch.order);
                }
                of(&dk, kv_head).assign(&keys.dk_td);
                of(&dv, kv_head).assign(&keys.dv_td);
            }
        }
        Ok::<(), Fault>(())
    })
}

/// The keys and values of one head, and the sums of their gradients.
struct Keys<'a> {
    problem: &'a Problem,
    mask: &'a Mask<'a>,
    batch: usize,
    k_td: Vec<f32>,
    v_td: Vec<f32>,
    dk_td: Vec<f32>,
    dv_td: Vec<f32>,
}

impl<'a> Keys<'a> {
    fn new(problem: &'a Problem, mask: &'a Mask<'a>, batch: usize, k: &View, v: &View) -> Self {
        let zeros = vec![0.0; problem.keys * problem.width];
        let (k_td, v_td) = (k.to_vec(), v.to_vec());
        Self { problem, mask, batch, k_td, v_td, dk_td: zeros.clone(), dv_td: zeros }
    }

    /// Adds what the queries of a head contribute, block by block in `order`; writes their gradient.
    fn add(&mut self, head: usize, [q, dy, out, max, sum]: [&View; 5], dq: &View, order: Order) {
        let (queries, width) = (self.problem.queries, self.problem.width);
        for block in order.indices(queries.div_ceil(BLOCK)) {
            let first = block * BLOCK;
            let rows = BLOCK.min(queries - first);
            let keys = (first..first + rows).map(|query| self.mask.window(query).end).max().unwrap_or(0);
            let dq = dq.sliced(0, first, rows);
            if keys == 0 {
                dq.assign(&vec![0.0f32; rows * width]);
                continue;
            }
            let part = |view: &View| view.sliced(0, first, rows).to_vec::<f32>();
            let (q, dy, out, max, sum) = (part(q), part(dy), part(out), part(max), part(sum));
            let (q_sd, dy_sd) = (dense(&q, &[rows, width]), dense(&dy, &[rows, width]));
            let k_td = dense(&self.k_td[..keys * width], &[keys, width]);
            let v_td = dense(&self.v_td[..keys * width], &[keys, width]);
            let (mut p_st, mut ds_st) = (vec![0.0; rows * keys], vec![0.0; rows * keys]);
            matmul(&q_sd, &k_td.permuted(&[1, 0]), &mut p_st);
            matmul(&dy_sd, &v_td.permuted(&[1, 0]), &mut ds_st);
            let dots = dy.chunks(width).zip(out.chunks(width));
            let deltas: Vec<f32> = dots.map(|(a, b)| a.iter().zip(b).map(|(a, b)| a * b).sum()).collect();
            self.scores(head, first, [&max, &sum, &deltas], &mut p_st, &mut ds_st);
            let (p_st, ds_st) = (dense(&p_st, &[rows, keys]), dense(&ds_st, &[rows, keys]));
            let mut dq_sd = vec![0.0; rows * width];
            matmul(&ds_st, &k_td, &mut dq_sd);
            dq.assign(&dq_sd);
            let mut part_td = vec![0.0; keys * width];
            matmul(&p_st.permuted(&[1, 0]), &dy_sd, &mut part_td);
            self.dv_td.iter_mut().zip(&part_td).for_each(|(sum, x)| *sum += x);
            matmul(&ds_st.permuted(&[1, 0]), &q_sd, &mut part_td);
            self.dk_td.iter_mut().zip(&part_td).for_each(|(sum, x)| *sum += x);
        }
    }

    /// Turns scores to probabilities, and gradients of probabilities to those of scores. The eight copies of a row's maximum
    /// and sum serve eight lanes.
    fn scores(&self, head: usize, first: usize, rows: [&[f32]; 3], p_st: &mut [f32], ds_st: &mut [f32]) {
        let [max, sum, deltas] = rows;
        let keys = p_st.len() / deltas.len();
        let mut masked = vec![0.0f32; self.problem.keys];
        for (row, (p_t, ds_t)) in p_st.chunks_mut(keys).zip(ds_st.chunks_mut(keys)).enumerate() {
            let query = first + row;
            let is_masked = self.mask.row(self.batch, head, query, &mut masked);
            let window = self.mask.window(query);
            for (key, (p, ds)) in p_t.iter_mut().zip(ds_t).enumerate() {
                let lane = row * REPEATS + key % REPEATS;
                let visible = window.contains(&key) && !(is_masked && masked[key] != 0.0);
                let probability = match visible {
                    true => (*p * self.problem.scale - max[lane]).exp() / sum[lane],
                    false => 0.0,
                };
                *p = self.problem.rounded(probability);
                *ds = self.problem.rounded(probability * (*ds - deltas[row]) * self.problem.scale);
            }
        }
    }
}
