//! The rules of the HTTP boundary: which routes there are, what they take and what is refused.

pub mod context;
pub mod cors;
pub mod path;
pub mod routes;
