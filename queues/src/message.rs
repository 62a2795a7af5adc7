//! What stands on the queues: [`domain::job`], where whoever sends a message and whoever reads it find it.

pub use domain::job::{Job, JobMessage, Undecodable};
