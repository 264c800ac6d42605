//! Arithmetic on strided memory.

mod dtype;
mod element;
mod map;
mod matmul;
mod order;
mod reduce;
mod rows;
mod view;

pub(crate) use dtype::DType;
pub(crate) use element::{Element, Lane, Truth, each_element};
pub(crate) use map::{copy, fill, for_each_row, map, map_indexed};
pub(crate) use matmul::{matmul, matmul_hf32};
pub(crate) use order::Order;
pub(crate) use reduce::{Reduction, reduce};
pub(crate) use rows::Rows;
pub(crate) use view::View;
