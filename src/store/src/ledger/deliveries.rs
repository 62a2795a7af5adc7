//! What became of the messages that a turn sent through a channel, as its owner may see it: never where they went.

use domain::ids::{OutboxId, TurnId, UserId};
use domain::outbox::outcome::{ErrorClass, ErrorCode};
use domain::outbox::{Origin, SendChannel, Status};
use domain::sql::{Row, RowError, Rows, Statement};
use domain::time::Timestamp;

/// One message: a part of the answer, or the notice that something went wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub outbox_id: OutboxId,
    pub channel: SendChannel,
    pub notice: bool,
    /// From 1.
    pub part: i64,
    pub parts: i64,
    pub status: Status,
    /// In order.
    pub attempts: Vec<Attempt>,
}

/// One try to hand it to the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// From 1.
    pub attempt: i64,
    pub started_at: Timestamp,
    /// `None` while it goes on.
    pub finished_at: Option<Timestamp>,
    pub outcome: Option<String>,
    pub error_class: Option<ErrorClass>,
    pub error_code: Option<ErrorCode>,
}

/// The messages of a turn of this user with every attempt, the answer's parts first; see [`read_deliveries`].
pub fn deliveries_of_turn(user: &UserId, turn: &TurnId) -> Statement {
    Statement {
        name: "deliveries_of_turn",
        sql: "SELECT m.outbox_id, m.channel, m.origin, m.part_no, m.part_count, m.status,
  a.attempt_no, a.started_at, a.finished_at, a.outcome, a.error_class, a.error_code
  FROM turns t JOIN outbound_messages m ON m.turn_id = t.turn_id
  LEFT JOIN outbound_attempts a ON a.outbox_id = m.outbox_id
 WHERE t.turn_id = ?2 AND t.user_id = ?1 ORDER BY m.origin = 'notice', m.part_no, m.outbox_id, a.attempt_no",
        binds: vec![user.into(), turn.into()],
    }
}

/// Reads the answer of [`deliveries_of_turn`].
pub fn read_deliveries(rows: &Rows) -> Result<Vec<Delivery>, RowError> {
    let mut deliveries: Vec<Delivery> = Vec::new();
    for row in &rows.rows {
        let outbox_id = crate::id(row, "outbox_id", OutboxId::parse)?;
        let attempt = read_attempt(row)?;
        match deliveries.last_mut().filter(|last| last.outbox_id == outbox_id) {
            Some(delivery) => delivery.attempts.extend(attempt),
            None => deliveries.push(Delivery {
                channel: SendChannel::parse(row.text("channel")?)
                    .ok_or_else(|| crate::wrong("channel", "a channel"))?,
                notice: Origin::parse(row.text("origin")?) == Some(Origin::Notice),
                part: row.integer("part_no")?,
                parts: row.integer("part_count")?,
                status: Status::parse(row.text("status")?).ok_or_else(|| crate::wrong("status", "a status"))?,
                attempts: attempt.into_iter().collect(),
                outbox_id,
            }),
        }
    }
    Ok(deliveries)
}

fn read_attempt(row: &Row) -> Result<Option<Attempt>, RowError> {
    let Some(attempt) = row.optional_integer("attempt_no")? else {
        return Ok(None);
    };
    let class = row
        .optional_text("error_class")?
        .map(|text| ErrorClass::parse(text).ok_or_else(|| crate::wrong("error_class", "an error class")));
    let code = row
        .optional_text("error_code")?
        .map(|text| ErrorCode::parse(text).ok_or_else(|| crate::wrong("error_code", "an error code")));
    Ok(Some(Attempt {
        attempt,
        started_at: row.timestamp("started_at")?,
        finished_at: row.optional_timestamp("finished_at")?,
        outcome: row.optional_text("outcome")?.map(str::to_owned),
        error_class: class.transpose()?,
        error_code: code.transpose()?,
    }))
}
