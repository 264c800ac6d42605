//! `schedule`: the order of kernels and collectives, and what runs beside what.

pub mod streams;
