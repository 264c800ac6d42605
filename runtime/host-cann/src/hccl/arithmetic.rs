//! Reduction of the contributions of ranks. As transfers between devices do, every step rounds to the element type.

use super::types::Reduce;
use crate::operators::compute::{DType, Element, Order, each_element};

/// Joins the contributions, which have equal lengths, in the order given.
pub(super) fn reduce(dtype: DType, how: Reduce, parts: &[&[u8]], order: Order) -> Vec<u8> {
    let mut ranks = order.indices(parts.len());
    let mut total = parts[ranks.next().expect("there is a rank")].to_vec();
    for rank in ranks {
        each_element!(dtype, E => join::<E>(dtype, how, &mut total, parts[rank]));
    }
    total
}

fn join<E: Element>(dtype: DType, how: Reduce, total: &mut [u8], part: &[u8]) {
    let size = size_of::<E>();
    for (a, b) in total.chunks_exact_mut(size).zip(part.chunks_exact(size)) {
        // SAFETY: both chunks hold an element, at any alignment.
        let (x, y) =
            unsafe { (a.as_ptr().cast::<E>().read_unaligned(), b.as_ptr().cast::<E>().read_unaligned()) };
        let joined = if dtype.is_float() {
            E::from_f32(floats(how, x.to_f32(), y.to_f32()))
        } else {
            E::from_i64(integers(how, x.to_i64(), y.to_i64()))
        };
        // SAFETY: as above.
        unsafe { a.as_mut_ptr().cast::<E>().write_unaligned(joined) };
    }
}

fn floats(how: Reduce, x: f32, y: f32) -> f32 {
    match how {
        Reduce::Sum => x + y,
        Reduce::Prod => x * y,
        Reduce::Max if x >= y || x.is_nan() => x,
        Reduce::Min if x <= y || x.is_nan() => x,
        Reduce::Max | Reduce::Min => y,
    }
}

fn integers(how: Reduce, x: i64, y: i64) -> i64 {
    match how {
        Reduce::Sum => x.wrapping_add(y),
        Reduce::Prod => x.wrapping_mul(y),
        Reduce::Max => x.max(y),
        Reduce::Min => x.min(y),
    }
}
