//! Passes: module to module. Every optimisation of Titan is one, every user-guarding proof a check.
//!
//! `pipeline` lists them in order with reasons; `registry` names them for filetests and `titanc opt`.

// pub mod pass;
// pub mod manager;
// pub mod pipeline;
// pub mod registry;
