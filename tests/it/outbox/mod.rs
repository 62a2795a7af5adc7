//! The outbox on a real database: claims and their fences, settling, and what nobody claims.

mod bridge;
mod claims;
mod desk;
mod destinations;
mod ends;
mod fences;
mod outside;
mod settling;
