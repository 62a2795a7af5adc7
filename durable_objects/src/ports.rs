//! The set of ports an object is built on.

use domain::ports::{Alarm, Checkpoint, Clock, Entropy, Queue, Spawn, Sql};

use crate::model::Model;

/// Everything a `UserTurns` object meets the world through.
pub trait Ports: 'static {
    type Sql: Sql;
    type Clock: Clock;
    type Entropy: Entropy;
    type Spawn: Spawn;
    type Alarm: Alarm;
    type Checkpoint: Checkpoint;
    type Model: Model;
    /// The queue of orders to send.
    type Queue: Queue;

    fn sql(&self) -> &Self::Sql;
    fn clock(&self) -> &Self::Clock;
    fn entropy(&self) -> &Self::Entropy;
    fn spawn(&self) -> &Self::Spawn;
    fn alarm(&self) -> &Self::Alarm;
    fn checkpoint(&self) -> &Self::Checkpoint;
    fn model(&self) -> &Self::Model;
    fn sends(&self) -> &Self::Queue;
}
