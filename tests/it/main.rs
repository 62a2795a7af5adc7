//! The native test binary.

mod conformance;
mod identity;
mod keys;
mod manifest;
mod plans;
mod tidy;
