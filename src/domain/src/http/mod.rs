//! The rules of the HTTP boundary: which routes there are, what they take and what is refused.

pub mod admission;
pub mod bodies;
pub mod context;
pub mod cors;
pub mod json;
pub mod negotiate;
pub mod path;
pub mod routes;
pub mod source;
pub mod trace;
