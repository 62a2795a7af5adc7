//! The native test binary.

mod conformance;
mod keys;
mod manifest;
mod plans;
mod tidy;
