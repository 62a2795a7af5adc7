//! What channels bring in: updates that are handled once, the people behind their senders, and the codes that bind a
//! chat to a person.

mod catalogue;
pub mod channel_token;
pub mod dedup;
pub mod link;
pub mod sender;

pub use catalogue::catalogue;
