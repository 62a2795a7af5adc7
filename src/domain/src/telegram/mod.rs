//! Telegram's Bot API: long texts in parts, messages out, and what its answers mean.

pub mod answer;
pub mod send;
pub mod split;
