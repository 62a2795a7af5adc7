//! Ordering and in-flight state, generic over the ports. D1's guards make it correct; these objects make it fast.
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

pub mod handover;
pub mod ingress;
pub mod model;
pub mod ports;
pub mod turnstile;
pub mod user_turns;
