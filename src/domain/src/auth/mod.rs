//! Who a caller is and what they may do: principals, access tokens, upstream identity tokens and client assertions.

pub mod principal;

pub use principal::{AuthMethod, Principal, Role, Scope, Subject};
