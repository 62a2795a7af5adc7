//! The queue and its consumer, seen from both ends.

use domain::ports::{Clock, Queue};
use domain::time::{Millis, Timestamp};

use crate::Report;

/// A body that begins with this is not acknowledged at its first delivery.
pub const FAIL_ONCE: &str = "fail-once:";

/// What a consumer was handed so far: the bodies and when, one entry for each delivery.
pub trait Inbox {
    async fn deliveries(&self) -> Vec<(String, Timestamp)>;
}

/// How long a message may take, in milliseconds.
const PATIENCE: i64 = 20_000;
const DELAY: i64 = 2_000;

/// `run` must differ from that of earlier runs on the same queue.
pub async fn suite(queue: &impl Queue, inbox: &impl Inbox, clock: &impl Clock, run: &str) -> Report {
    let mut report = Report::default();
    let plain = format!("plain:{run}");
    let delayed = format!("delayed:{run}");
    let failing = format!("{FAIL_ONCE}{run}");
    let large = format!("large:{run}:{}", "x".repeat(100_000));
    let sent_at = clock.now();
    for (body, delay) in [(&plain, 0), (&delayed, DELAY), (&failing, 0), (&large, 0)] {
        let sent = queue.send(body.clone(), Millis::new(delay)).await;
        report.equal(
            format!("queue: takes {}", body.chars().take(12).collect::<String>()),
            sent,
            Ok(()),
        );
    }
    let mut seen = Vec::new();
    while clock.now().since(sent_at).get() < PATIENCE {
        seen = inbox.deliveries().await;
        let times = |body: &String| seen.iter().filter(|(found, _)| found == body).count();
        if times(&plain) > 0 && times(&delayed) > 0 && times(&failing) > 1 && times(&large) > 0 {
            break;
        }
        clock.sleep(Millis::new(250)).await;
    }
    let at = |body: &String| {
        seen.iter()
            .find(|(found, _)| found == body)
            .map(|(_, at)| at.since(sent_at).get())
    };
    report.that("queue: delivers at least once", at(&plain).is_some(), at(&plain));
    report.that("queue: delivers 100 kB whole", at(&large).is_some(), at(&large));
    report.that(
        "queue: holds a delayed message back",
        at(&delayed).is_some_and(|ms| ms >= DELAY),
        at(&delayed),
    );
    let tries = seen.iter().filter(|(found, _)| *found == failing).count();
    report.that("queue: delivers again what was not acknowledged", tries >= 2, tries);
    report
}
