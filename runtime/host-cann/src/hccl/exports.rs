//! The functions of HCCL.
