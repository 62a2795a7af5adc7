//! The native test binary.

mod conformance;
mod manifest;
