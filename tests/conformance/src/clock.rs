//! The clock.

use domain::ports::Clock;
use domain::time::{Millis, Timestamp};
use futures::future::join;

use crate::Report;

/// 2025-01-01T00:00:00Z; no clock of ours is older.
const PAST: i64 = 1_735_689_600_000;

/// How much longer than asked a wait may last on a busy machine, in milliseconds.
const SLACK: i64 = 5_000;

pub async fn suite(clock: &impl Clock) -> Report {
    let mut report = Report::default();
    report.that(
        "clock: now is a date",
        clock.now() > Timestamp::from_millis(PAST),
        clock.now(),
    );

    let before = clock.now();
    clock.sleep(Millis::new(50)).await;
    let waited = clock.now().since(before).get();
    report.that(
        "clock: a wait lasts at least as long as asked",
        (50..50 + SLACK).contains(&waited),
        waited,
    );

    let before = clock.now();
    join(clock.sleep(Millis::new(200)), clock.sleep(Millis::new(200))).await;
    let waited = clock.now().since(before).get();
    report.that(
        "clock: two waits pass side by side",
        (200..400).contains(&waited),
        waited,
    );

    let before = clock.now();
    clock.sleep(Millis::ZERO).await;
    clock.sleep(Millis::new(-5)).await;
    let waited = clock.now().since(before).get();
    report.that("clock: a wait of nothing ends", (0..SLACK).contains(&waited), waited);
    report
}
