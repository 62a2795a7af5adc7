//! Who a caller is and what they may do: principals, access tokens, upstream identity tokens and client assertions.

pub mod assertion;
pub mod cache;
pub mod claims;
pub mod jwk;
pub mod jwks;
pub mod jwks_fetch;
pub mod jws;
pub mod keyset;
pub mod link_code;
pub mod principal;
pub mod provisioning;
pub mod token;
pub mod upstream;
pub mod webhook;

#[cfg(test)]
mod jwk_tests;
#[cfg(test)]
mod jwks_tests;
#[cfg(test)]
mod keyset_tests;
#[cfg(test)]
mod provisioning_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod token_tests;
#[cfg(test)]
mod upstream_tests;

pub use keyset::KeySet;
pub use principal::{AuthMethod, Principal, Role, Scope, Subject};
