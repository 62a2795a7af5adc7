//! The outbox: what goes out, by whom, at which pace, and what became of it.
//!
//! Each function builds one batch, or a part of one. Nothing here decides: `domain::outbox` does.

pub mod catalogue;
pub mod claim;
pub mod claimed;
mod ending;
pub mod enqueue;
mod items;
pub mod operate;
pub mod outside;
pub mod purge;
pub mod settle;
pub mod sweep;
