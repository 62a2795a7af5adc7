//! Telegram's Bot API: updates in, long texts in parts, messages out, and what its answers mean.

pub mod answer;
pub mod send;
pub mod split;
pub mod update;
