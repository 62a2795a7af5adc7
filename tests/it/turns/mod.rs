//! Turns that come through a channel: from their acceptance to what became of their messages, and what the sweep and
//! the funnel make of those that got stuck.

mod channel;
mod counter;
mod funnel;
mod overlap;
mod sweeping;
mod view;
mod whole;
