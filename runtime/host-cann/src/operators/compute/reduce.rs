//! Many elements to one.

use super::map::for_each_row;
use super::{Lane, Order, View};

/// How elements are joined: the value that changes nothing, and the join of two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reduction<L, S> {
    pub(crate) start: L,
    pub(crate) step: S,
}

/// Partial results along a row, so that rounding errors stay small and loops wide.
const PARTS: usize = 8;

/// Lanes worked on at a time where rows are not neighbours in memory.
const CHUNK: usize = 256;

/// Reduces dimensions `axes` of `input`; gives the results in row-major order of the dimensions that are left.
/// `prepare` maps each element first.
pub(crate) fn reduce<L: Lane>(
    input: &View,
    axes: &[usize],
    order: Order,
    prepare: impl Fn(L) -> L,
    reduction: Reduction<L, impl Fn(L, L) -> L + Copy>,
) -> Vec<L> {
    let kept: Vec<usize> = (0..input.rank()).filter(|d| !axes.contains(d)).collect();
    let (outer, inner) = (input.permuted(&kept), input.permuted(axes));
    let lanes_are_neighbours = outer.strides.last() == Some(&1) && outer.dims.last() > Some(&1);
    if lanes_are_neighbours {
        reduce_lanes(&outer, &inner, order, prepare, reduction)
    } else {
        reduce_rows(&outer, &inner, order, prepare, reduction)
    }
}

fn reduce_rows<L: Lane>(
    outer: &View,
    inner: &View,
    order: Order,
    prepare: impl Fn(L) -> L,
    reduction: Reduction<L, impl Fn(L, L) -> L + Copy>,
) -> Vec<L> {
    let step = reduction.step;
    let mut rows: Vec<(usize, usize, usize)> = Vec::new();
    for_each_row([inner], |[at], len, [stride]| {
        rows.extend((0..len).step_by(CHUNK).map(|from| (at + from * stride, CHUNK.min(len - from), stride)));
    });
    let mut buffer = [L::default(); CHUNK];
    let of_row = |base: usize| {
        let mut total = reduction.start;
        for index in order.indices(rows.len()) {
            let (at, len, stride) = rows[index];
            inner.load(base + at, stride, &mut buffer[..len]);
            let turned = order.index(0, len);
            let (before, after) = buffer[..len].split_at(turned);
            let mut parts = [reduction.start; PARTS];
            for chunk in after.chunks(PARTS).chain(before.chunks(PARTS)) {
                parts.iter_mut().zip(chunk).for_each(|(part, &x)| *part = step(*part, prepare(x)));
            }
            total = step(total, parts.into_iter().fold(reduction.start, step));
        }
        total
    };
    outer.offsets().map(of_row).collect()
}

fn reduce_lanes<L: Lane>(
    outer: &View,
    inner: &View,
    order: Order,
    prepare: impl Fn(L) -> L,
    reduction: Reduction<L, impl Fn(L, L) -> L + Copy>,
) -> Vec<L> {
    let step = reduction.step;
    let inner_offsets: Vec<usize> = inner.offsets().collect();
    let mut results = Vec::with_capacity(outer.num_elements());
    let mut buffer = [L::default(); CHUNK];
    let (rest, last) = (outer.at(outer.rank() - 1, 0), *outer.dims.last().expect("lanes have a dimension"));
    for base in rest.offsets() {
        for from in (0..last).step_by(CHUNK) {
            let n = CHUNK.min(last - from);
            let mut totals = [reduction.start; CHUNK];
            for index in order.indices(inner_offsets.len()) {
                outer.load(base + from + inner_offsets[index], 1, &mut buffer[..n]);
                for (total, &x) in totals[..n].iter_mut().zip(&buffer[..n]) {
                    *total = step(*total, prepare(x));
                }
            }
            results.extend_from_slice(&totals[..n]);
        }
    }
    results
}
