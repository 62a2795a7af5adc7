//! Every SQL statement of Hermod and the mapping of its rows, over one port: an atomic batch of statements.
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

pub mod token;
