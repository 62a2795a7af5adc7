//! The native test binary.

mod chat;
mod conformance;
mod deliver;
mod http;
mod identity;
mod ingress;
mod keys;
mod manifest;
mod openapi;
mod outbox;
mod plans;
mod simulation;
mod tidy;
mod turns;
