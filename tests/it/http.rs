//! The HTTP boundary, natively: what is read from requests, and what D1's answers mean.

mod d1_answers;
mod mutations;
mod problems;
