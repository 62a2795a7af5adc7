//! The source of unpredictable bytes.

use std::collections::BTreeSet;

use domain::ports::Entropy;

use crate::Report;

/// More than the platform gives in one call (65,536 bytes).
const LARGE: usize = 70_000;

pub fn suite(entropy: &impl Entropy) -> Report {
    let mut report = Report::default();
    let draws: BTreeSet<[u8; 16]> = (0..1_000)
        .map(|_| {
            let mut bytes = [0; 16];
            entropy.fill(&mut bytes);
            bytes
        })
        .collect();
    report.equal("entropy: a thousand draws of 16 bytes differ", draws.len(), 1_000);

    entropy.fill(&mut []);
    let mut large = vec![0; LARGE];
    entropy.fill(&mut large);
    let tail: BTreeSet<&u8> = large.iter().skip(LARGE - 4_000).collect();
    report.equal("entropy: a large buffer is filled to its end", tail.len(), 256);
    report
}
