//! The runtime's cryptographic random source.

use domain::ports::Entropy;

#[derive(Debug, Clone, Copy, Default)]
pub struct WorkerEntropy;

impl Entropy for WorkerEntropy {
    #[allow(clippy::disallowed_methods, reason = "this is the one place that draws randomness")]
    #[allow(
        clippy::panic,
        reason = "going on without randomness would mint guessable keys and ids"
    )]
    fn fill(&self, bytes: &mut [u8]) {
        if getrandom::fill(bytes).is_err() {
            panic!("the runtime has no random source");
        }
    }
}
