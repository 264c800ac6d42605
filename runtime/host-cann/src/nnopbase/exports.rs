//! The functions of nnopbase.
