//! The outbox: what goes out, by whom, at which pace, and what became of it.
//!
//! Each function builds one batch, or a part of one. Nothing here decides: `domain::outbox` does.

pub mod catalogue;
pub mod purge;
