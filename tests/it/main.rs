//! The native test binary.

mod manifest;
