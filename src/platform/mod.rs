//! Adapters: the ports of the domain over the `worker` crate. Only here may time and randomness come from the
//! surroundings.

pub mod alarm;
pub mod background;
pub mod body;
pub mod checkpoint;
pub mod clock;
pub mod config;
pub mod costs;
pub mod d1;
mod d1_wire;
pub mod entropy;
pub mod fetch;
pub mod log;
pub mod object_client;
pub mod queue;
pub mod rounds;
pub mod sends;
pub mod spawn;
pub mod user_turns;
