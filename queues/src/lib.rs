//! Versioned queue messages and their consumers.
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]
