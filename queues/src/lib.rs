//! Versioned queue messages, their consumers, and the sweep that makes losing any of them harmless.
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

pub mod deliver;
pub mod funnel;
pub mod inbox;
pub mod jobs;
pub mod message;
pub mod outside;
pub mod purge;
pub mod rotation;
pub mod sweep;
pub mod telegram;
