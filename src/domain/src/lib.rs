//! The rules of Hermod, pure.
//!
//! Nothing here does I/O, reads a clock or draws randomness: `now` and an [`ports::Entropy`] are arguments.
//! The platform is met only through the traits in [`ports`], so the same rules run in workerd and in a
//! seeded simulation.
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

pub mod auth;
pub mod fence;
pub mod guard;
pub mod http;
pub mod idempotency;
pub mod ids;
pub mod job;
pub mod keys;
pub mod model;
mod names;
pub mod outbox;
pub mod ports;
pub mod problem;
pub mod rate;
pub mod retry;
pub mod rfc3339;
pub mod session;
pub mod settings;
pub mod sql;
pub mod telegram;
pub mod time;
pub mod turn;
