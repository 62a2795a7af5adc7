//! The kinds of worlds there are, behind one face.

use std::ops::Range;

use domain::fence::Fence;
use domain::guard::Guard;

use crate::channels::{self, Dropped};
use crate::shrink::shrink;
use crate::world::{self, record::Report};

/// A kind of worlds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Clients who talk with the service directly.
    Turns,
    /// People who write to bots.
    Channels,
}

pub const KINDS: [Kind; 2] = [Kind::Turns, Kind::Channels];

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::Channels => "channels",
        }
    }

    /// What its reports count beside turns.
    pub const fn what_else_ended(self) -> &'static str {
        match self {
            Self::Turns => "requests ended",
            Self::Channels => "rows, attempts and updates ended",
        }
    }

    /// Lives the worlds of `seeds` through, with a condition of the database without effect if one is named.
    pub fn live(self, seeds: Range<u64>, dropped: Option<Dropped>) -> Vec<Report> {
        match self {
            Self::Turns => world::many::live(seeds, guard(dropped)),
            Self::Channels => channels::many::live(seeds, dropped),
        }
    }

    /// Whether that condition can matter in such a world at all.
    const fn knows(self, condition: Dropped) -> bool {
        match (self, condition) {
            (Self::Turns, Dropped::Fence(_)) => false,
            (Self::Turns | Self::Channels, _) => true,
        }
    }

    /// The smallest plan that still breaks `rule`, written down.
    pub fn shrink(self, seed: u64, rule: &str, dropped: Option<Dropped>) -> String {
        let breaks = |report: Report| report.violations.iter().any(|violation| violation.rule == rule);
        match self {
            Self::Turns => {
                let plan = world::plan::Plan::of(seed);
                format!("{:#?}", shrink(&plan, |plan| breaks(world::run(plan, guard(dropped)))))
            }
            Self::Channels => {
                let plan = channels::plan::Plan::of(seed);
                format!("{:#?}", shrink(&plan, |plan| breaks(channels::run(plan, dropped))))
            }
        }
    }
}

/// Seeds are tried in portions, so that a search ends soon after the first failure.
const PORTION: u64 = 50;

/// The first world of these kinds under one of `seeds` that breaks a rule without a condition: its kind, its seed and
/// the rule.
pub fn failing_world(kinds: &[Kind], seeds: Range<u64>, condition: Dropped) -> Option<(Kind, u64, &'static str)> {
    let broken = |report: &Report| report.violations.first().map(|first| (report.seed, first.rule));
    for from in seeds.clone().step_by(PORTION as usize) {
        let portion = from..seeds.end.min(from + PORTION);
        for kind in kinds.iter().filter(|kind| kind.knows(condition)) {
            if let Some((seed, rule)) = kind.live(portion.clone(), Some(condition)).iter().find_map(broken) {
                return Some((*kind, seed, rule));
            }
        }
    }
    None
}

fn guard(dropped: Option<Dropped>) -> Option<Guard> {
    match dropped {
        Some(Dropped::Guard(guard)) => Some(guard),
        Some(Dropped::Fence(_)) | None => None,
    }
}

/// Every guard and every fence.
pub fn conditions() -> impl Iterator<Item = Dropped> {
    let guards = Guard::ALL.iter().map(|guard| Dropped::Guard(*guard));
    guards.chain(Fence::ALL.iter().map(|fence| Dropped::Fence(*fence)))
}

/// The guard or fence of this label.
pub fn dropped(label: &str) -> Option<Dropped> {
    let guard = Guard::from_label(label).map(Dropped::Guard);
    guard.or_else(|| Fence::from_label(label).map(Dropped::Fence))
}

/// The condition's kind and label, as they are printed.
pub fn label(condition: Dropped) -> String {
    match condition {
        Dropped::Guard(guard) => format!("guard {}", guard.label()),
        Dropped::Fence(fence) => format!("fence {}", fence.label()),
    }
}
