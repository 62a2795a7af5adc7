//! Many worlds, on every core.

use std::num::NonZero;
use std::ops::Range;
use std::thread;

use domain::guard::Guard;

use super::plan::Plan;
use super::record::Report;
use super::run;

/// Lives the worlds of `seeds` through, with a guard without effect if one is named. In the order of the seeds.
pub fn live(seeds: Range<u64>, dropped: Option<Guard>) -> Vec<Report> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let mut reports: Vec<Report> = thread::scope(|scope| {
        let lane = |lane: usize| {
            let own = seeds.clone().skip(lane).step_by(threads);
            scope.spawn(move || own.map(|seed| run(&Plan::of(seed), dropped)).collect::<Vec<_>>())
        };
        let lanes: Vec<_> = (0..threads).map(lane).collect();
        lanes
            .into_iter()
            .flat_map(|lane| lane.join().expect("a lane of worlds"))
            .collect()
    });
    reports.sort_by_key(|report| report.seed);
    reports
}
