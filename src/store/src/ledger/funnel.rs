//! The funnel: how many messages got stuck on their way from acceptance to delivery. Reads only, over partial indexes.

use domain::outbox::SendChannel;
use domain::sql::{RowError, Rows, Statement};
use domain::time::Timestamp;
use domain::turn::funnel::{ANSWER_WITHIN, WRITE_WITHIN, deliver_within};

/// No more than this are counted of each kind: by then the exact number says nothing new.
pub const COUNT_MAX: u32 = 10_000;

/// How many got stuck, and since when the oldest has been on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stuck {
    pub count: u64,
    pub oldest: Option<Timestamp>,
}

/// What [`counts`] found. Nothing is stuck while all is well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Accepted, and neither answered nor ended.
    pub unanswered: Stuck,
    /// Generated, and not stored.
    pub unwritten: Stuck,
    /// In the outbox, and not settled; rows that an operator set aside do not count.
    pub undelivered: Stuck,
    /// Messages that an operator set aside.
    pub quarantined: u64,
    /// Gateways that wait for a credential their provider knows.
    pub broken_gateways: u64,
}

/// Counts what takes longer than it may at `now`; see [`read_counts`].
pub fn counts(now: Timestamp) -> Vec<Statement> {
    vec![
        Statement {
            name: "funnel_unanswered",
            sql: "SELECT count(*) AS stuck, min(s.since) AS oldest FROM (SELECT t.accepted_at AS since FROM turns t
 WHERE t.terminal_at IS NULL AND t.delivery_status <> 'pending' AND t.status IN ('accepted', 'processing')
   AND t.accepted_at < CAST(?1 AS INTEGER) LIMIT CAST(?2 AS INTEGER)) s",
            binds: vec![now.minus(ANSWER_WITHIN).into(), COUNT_MAX.into()],
        },
        Statement {
            name: "funnel_unwritten",
            sql: "SELECT count(*) AS stuck, min(s.since) AS oldest FROM (SELECT t.generation_completed_at AS since FROM turns t
 WHERE t.terminal_at IS NULL AND t.delivery_status <> 'pending' AND t.generation_status = 'completed'
   AND t.writeback_status NOT IN ('completed', 'deferred')
   AND t.generation_completed_at < CAST(?1 AS INTEGER) LIMIT CAST(?2 AS INTEGER)) s",
            binds: vec![now.minus(WRITE_WITHIN).into(), COUNT_MAX.into()],
        },
        Statement {
            name: "funnel_undelivered",
            sql: "SELECT count(*) AS stuck, min(s.since) AS oldest
  FROM (SELECT max(m.created_at, m.not_before) AS since FROM outbound_messages m
 WHERE m.terminal_at IS NULL AND m.status IN ('pending', 'leased', 'retry')
   AND max(m.created_at, m.not_before) < CAST(?1 ->> m.channel AS INTEGER) LIMIT CAST(?2 AS INTEGER)) s",
            binds: vec![made_before(now).into(), COUNT_MAX.into()],
        },
        Statement {
            name: "funnel_quarantined",
            sql: "SELECT count(*) AS counted FROM (SELECT 1 FROM outbound_messages m
 WHERE m.terminal_at IS NULL AND m.status = 'quarantined' LIMIT CAST(?1 AS INTEGER))",
            binds: vec![COUNT_MAX.into()],
        },
        Statement {
            name: "funnel_broken_gateways",
            sql: "SELECT count(*) AS counted FROM gateways g WHERE g.status = 'broken'",
            binds: vec![],
        },
    ]
}

/// For each channel the time before which a message should have been settled by now, as a JSON object.
fn made_before(now: Timestamp) -> String {
    let pairs: Vec<String> = SendChannel::ALL
        .iter()
        .map(|channel| {
            let before = now.minus(deliver_within(*channel)).as_millis();
            format!("\"{}\":{before}", channel.as_str())
        })
        .collect();
    format!("{{{}}}", pairs.join(","))
}

/// Reads the rows of [`counts`].
pub fn read_counts(rows: &[Rows]) -> Result<Counts, RowError> {
    let [unanswered, unwritten, undelivered, quarantined, broken] = rows else {
        return Err(crate::wrong("", "five row sets"));
    };
    Ok(Counts {
        unanswered: read_stuck(unanswered)?,
        unwritten: read_stuck(unwritten)?,
        undelivered: read_stuck(undelivered)?,
        quarantined: read_count(quarantined, "counted")?,
        broken_gateways: read_count(broken, "counted")?,
    })
}

fn read_stuck(rows: &Rows) -> Result<Stuck, RowError> {
    let row = rows.first().ok_or_else(|| crate::wrong("stuck", "a count"))?;
    Ok(Stuck {
        count: read_count(rows, "stuck")?,
        oldest: row.optional_timestamp("oldest")?,
    })
}

fn read_count(rows: &Rows, column: &str) -> Result<u64, RowError> {
    let row = rows.first().ok_or_else(|| crate::wrong(column, "a count"))?;
    Ok(u64::try_from(row.integer(column)?).unwrap_or(0))
}
