//! The outbox against the provider: every row ends, and what it says of its attempts is what the provider saw.

use std::collections::BTreeMap;

use domain::sql::{Row as SqlRow, Value};

use crate::channels::World;
use crate::channels::claims::Claim;
use crate::channels::plan::{Act, Plan};
use crate::channels::provider::Verdict;
use crate::world::oracle::Turn;

/// A row of the outbox and its attempts.
pub struct Row {
    pub id: String,
    pub turn: Option<String>,
    pub group: String,
    pub part_no: i64,
    pub part_count: i64,
    pub lane: String,
    pub lane_no: i64,
    pub is_part: bool,
    pub from: Option<i64>,
    pub to: Option<i64>,
    pub status: String,
    pub error: Option<String>,
    pub provider_message_id: Option<String>,
    pub attempt_count: i64,
    pub ambiguous_count: i64,
    pub max_attempts: i64,
    pub key: String,
    pub attempts: Vec<Attempt>,
}

pub struct Attempt {
    pub no: i64,
    pub outcome: Option<String>,
    pub code: Option<String>,
    pub provider_message_id: Option<String>,
}

impl Row {
    pub fn ending(&self) -> String {
        format!("{} {}", self.status, self.error.as_deref().unwrap_or("-"))
    }

    fn was_taken(&self) -> bool {
        matches!(self.status.as_str(), "provider_accepted" | "acknowledged")
    }
}

impl Attempt {
    pub fn ending(&self) -> String {
        let outcome = self.outcome.as_deref().unwrap_or("open");
        format!("{outcome} {}", self.code.as_deref().unwrap_or("-"))
    }

    fn is(&self, outcome: &str) -> bool {
        self.outcome.as_deref() == Some(outcome)
    }
}

/// Every row, in the order of lanes.
pub fn read(world: &World) -> Vec<Row> {
    let database = world.sql.database();
    let rows = database.query(
        "SELECT * FROM outbound_messages ORDER BY lane, lane_no, created_at",
        &[],
    );
    let row = |row: &SqlRow| {
        let text = |column: &str| row.text(column).expect("text").to_owned();
        let maybe = |column: &str| row.optional_text(column).expect("text or NULL").map(str::to_owned);
        let number = |column: &str| row.integer(column).expect("a number");
        let id = text("outbox_id");
        let sql = "SELECT * FROM outbound_attempts WHERE outbox_id = ?1 ORDER BY attempt_no";
        let attempts = database.query(sql, &[Value::from(id.as_str())]);
        Row {
            turn: maybe("turn_id"),
            group: text("group_id"),
            part_no: number("part_no"),
            part_count: number("part_count"),
            lane: text("lane"),
            lane_no: number("lane_no"),
            is_part: text("content_kind") == "message",
            from: row.optional_integer("content_from").expect("a number or NULL"),
            to: row.optional_integer("content_to").expect("a number or NULL"),
            status: text("status"),
            error: maybe("last_error_code"),
            provider_message_id: maybe("provider_message_id"),
            attempt_count: number("attempt_count"),
            ambiguous_count: number("ambiguous_count"),
            max_attempts: number("max_attempts"),
            key: text("idempotency_key"),
            attempts: attempts.iter().map(attempt).collect(),
            id,
        }
    };
    rows.iter().map(row).collect()
}

fn attempt(row: &SqlRow) -> Attempt {
    let maybe = |column: &str| row.optional_text(column).expect("text or NULL").map(str::to_owned);
    Attempt {
        no: row.integer("attempt_no").expect("a number"),
        outcome: maybe("outcome"),
        code: maybe("error_code"),
        provider_message_id: maybe("provider_message_id"),
    }
}

/// What the table alone can show to be wrong.
pub fn check(world: &World, rows: &[Row]) {
    let watch = &world.watch;
    for row in rows {
        let settled = matches!(
            row.status.as_str(),
            "provider_accepted" | "acknowledged" | "failed" | "expired" | "cancelled"
        );
        watch.that(settled || row.status == "quarantined", "row_ends", || {
            format!("{} is still {}", row.id, row.ending())
        });
        watch.that(row.attempt_count <= row.max_attempts, "attempts_bounded", || {
            format!("{}: {} attempts", row.id, row.attempt_count)
        });
        let ours = matches!(
            row.error.as_deref(),
            Some("message_too_long" | "message_empty" | "bad_request")
        );
        watch.that(!ours, "sent_rightly", || format!("{} ended {}", row.id, row.ending()));
        let ambiguous = row.attempts.iter().filter(|one| one.is("ambiguous")).count() as i64;
        watch.that(
            ambiguous == row.ambiguous_count || row.ambiguous_count < ambiguous,
            "attempts_counted",
            || {
                format!(
                    "{}: {ambiguous} ambiguous attempts, {} counted",
                    row.id, row.ambiguous_count
                )
            },
        );
        for (at, one) in row.attempts.iter().enumerate() {
            let open = one.outcome.is_none() && row.status != "quarantined";
            watch.that(!open, "attempt_ends", || {
                format!("{}: attempt {} is open", row.id, one.no)
            });
            watch.that(one.no == at as i64 + 1, "attempts_counted", || {
                format!("{}: attempt {} stands at place {at}", row.id, one.no)
            });
        }
        let accepted: Vec<&Attempt> = row.attempts.iter().filter(|one| one.is("accepted")).collect();
        watch.that(accepted.len() == usize::from(row.was_taken()), "accepted_once", || {
            format!(
                "{} is {} after {} accepted attempts",
                row.id,
                row.status,
                accepted.len()
            )
        });
        if let Some(one) = accepted.first() {
            watch.that(
                one.provider_message_id == row.provider_message_id,
                "accepted_once",
                || format!("{}: its attempt has another message id", row.id),
            );
        }
    }
}

/// What became of a turn is what became of its rows.
pub fn check_turns(world: &World, rows: &[Row], turns: &[Turn]) {
    let watch = &world.watch;
    let mut by_turn: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        if let Some(turn) = &row.turn {
            by_turn.entry(turn).or_default().push(row);
        }
    }
    for turn in turns {
        let own = by_turn.get(turn.id.as_str()).cloned().unwrap_or_default();
        let mut parts: Vec<&Row> = own.iter().copied().filter(|row| row.is_part).collect();
        parts.sort_by_key(|row| row.part_no);
        let answer = turn.answer.as_deref();
        let nowhere = parts.is_empty() && !address_was_active(world, turn);
        watch.that(
            answer.is_some() != parts.is_empty() || nowhere,
            "answer_enqueued",
            || format!("{} has {} parts to send for its answer", turn.id, parts.len()),
        );
        check_parts(world, turn, &parts);
        check_rest(world, turn, &parts);
        let all_taken = parts.iter().all(|row| row.was_taken()) && !parts.is_empty();
        watch.that((turn.status == "terminal_success") == all_taken, "honest_end", || {
            let stand: Vec<String> = parts.iter().map(|row| row.ending()).collect();
            format!("{} ended {} with its parts {stand:?}", turn.id, turn.status)
        });
        let notice = own.iter().any(|row| row.key == format!("notice:{}", turn.id));
        let failed = turn.status == "terminal_failure";
        // What an operator sets aside may fail in part and still be sent whole once it is let go.
        let touched = parts
            .first()
            .is_some_and(|row| world.touched.borrow().contains(&row.group));
        watch.that(failed || !notice || touched, "failure_noticed", || {
            format!("{} ended {} and a notice says it failed", turn.id, turn.status)
        });
        let lost = parts
            .iter()
            .any(|row| matches!(row.status.as_str(), "failed" | "expired"));
        let silent = failed && !notice && (answer.is_none() || lost);
        let excused = turn.error.as_deref() == Some("subject_deleted") || !address_was_active(world, turn);
        watch.that(!silent || excused, "failure_noticed", || {
            format!("{} ended {:?} without a word", turn.id, turn.error)
        });
    }
}

/// Whether the turn's address still stands as it was; where it does not, no notice need have been sent.
fn address_was_active(world: &World, turn: &Turn) -> bool {
    let sql = "SELECT 1 AS v FROM turns t JOIN channel_addresses d ON d.address_id = t.address_id
               WHERE t.turn_id = ?1 AND d.status = 'active' AND d.updated_at <= t.accepted_at";
    !world.sql.database().query(sql, &[turn.id.as_str().into()]).is_empty()
}

/// Where a part was not taken, nothing behind it was, unless an operator let it go later.
fn check_rest(world: &World, turn: &Turn, parts: &[&Row]) {
    let lost = parts.iter().position(|row| !row.was_taken());
    let behind = lost.map_or(&[][..], |lost| &parts[lost..]);
    let torn = behind
        .iter()
        .any(|row| row.was_taken() && !world.touched.borrow().contains(&row.group));
    world.watch.that(!torn, "parts_together", || {
        let stand: Vec<String> = parts.iter().map(|row| row.ending()).collect();
        format!("{}: its parts ended {stand:?}", turn.id)
    });
}

/// The parts of an answer are all of it, in order, in rows that follow one another.
fn check_parts(world: &World, turn: &Turn, parts: &[&Row]) {
    let Some(answer) = &turn.answer else { return };
    let mut end = 0;
    for (at, row) in parts.iter().enumerate() {
        let (from, to) = (row.from.unwrap_or(-1), row.to.unwrap_or(-1));
        let between = answer.get(end as usize..from.max(0) as usize);
        let gapless = between.is_some_and(|text| text.trim().is_empty()) && to > from;
        let numbered = row.part_no == at as i64 + 1 && row.part_count == parts.len() as i64;
        let together = row.group == parts[0].group && row.lane == parts[0].lane;
        let follows = row.lane_no == parts[0].lane_no + at as i64;
        world
            .watch
            .that(gapless && numbered && together && follows, "parts_whole", || {
                format!(
                    "{}: part {} of {}, bytes {from} to {to} after {end}",
                    turn.id, row.part_no, row.part_count
                )
            });
        end = to;
    }
    let rest = answer.get(end.max(0) as usize..).unwrap_or("?");
    world
        .watch
        .that(parts.is_empty() || rest.trim().is_empty(), "parts_whole", || {
            format!("{}: {} bytes are in no part", turn.id, rest.len())
        });
}

/// The ledger of attempts agrees with the provider's own record.
pub fn check_provider(world: &World, plan: &Plan, rows: &[Row]) {
    let watch = &world.watch;
    let claims = world.claims.all();
    let sent = world.telegram.sent();
    let find = |claim: &Claim| {
        let row = rows.iter().find(|row| row.id == claim.outbox_id)?;
        Some((row, row.attempts.iter().find(|one| one.no == claim.attempt_no)?))
    };
    for claim in claims.iter().filter(|claim| !claim.twin) {
        let Some((row, attempt)) = find(claim) else {
            watch.wrong(
                "attempt_kept",
                format!("{}: attempt {} vanished", claim.outbox_id, claim.attempt_no),
            );
            continue;
        };
        let taken = claim.sent.and_then(|number| sent[number].taken());
        let name = format!("{} attempt {} ({})", row.id, attempt.no, attempt.ending());
        if let Some(message) = taken {
            watch.that(
                attempt.is("accepted") || attempt.is("ambiguous"),
                "ledger_agrees",
                || format!("{name}: the provider took it as {message}"),
            );
        }
        if attempt.is("accepted") {
            let id = taken.map(|id| id.to_string());
            watch.that(
                id.is_some() && id == attempt.provider_message_id,
                "ledger_agrees",
                || format!("{name}: the provider has it as {taken:?}"),
            );
        }
        if attempt.is("not_started") {
            watch.that(claim.sent.is_none(), "ledger_agrees", || format!("{name}: it was sent"));
        }
    }
    check_order(world, rows, &claims);
    check_pace(world, plan);
}

/// What the provider took of one lane it took in the lane's order: nothing after something of a later row. Rows that
/// were set aside by an operator go whenever they are let go.
fn check_order(world: &World, rows: &[Row], claims: &[Claim]) {
    let sent = world.telegram.sent();
    let mut lanes: BTreeMap<&str, Vec<(i64, &Row)>> = BTreeMap::new();
    for claim in claims.iter().filter(|claim| !claim.twin) {
        let Some(number) = claim.sent else { continue };
        let Some((at, Verdict::Taken { .. })) = sent[number].arrived else {
            continue;
        };
        let Some(row) = rows.iter().find(|row| row.id == claim.outbox_id) else {
            continue;
        };
        if !world.touched.borrow().contains(&row.group) {
            lanes.entry(&row.lane).or_default().push((at, row));
        }
    }
    // Where clocks disagree, two may hold one row, and the slower of them sends it after a later one.
    if world.callers.is_skewed() {
        return;
    }
    for taken in lanes.values_mut() {
        taken.sort_by_key(|(at, row)| (*at, row.lane_no));
        for pair in taken.windows(2) {
            world.watch.that(pair[0].1.lane_no <= pair[1].1.lane_no, "order", || {
                format!("{} was taken after {}", pair[1].1.id, pair[0].1.id)
            });
        }
    }
}

/// Where no clock is off, every way is short and none is tried twice, the provider never finds the pace too fast.
fn check_pace(world: &World, plan: &Plan) {
    let quick = plan.slowest <= 20 && plan.is_calm();
    // A chat that has moved stands in two lanes for as long as its earlier messages last.
    let disturbed = |act: &Act| {
        matches!(
            act,
            Act::Skew { .. } | Act::Outage { .. } | Act::Fetch { .. } | Act::Migrate { .. }
        )
    };
    if !quick || plan.steps.iter().any(|step| disturbed(&step.act)) {
        return;
    }
    for (number, sent) in world.telegram.sent().iter().enumerate() {
        if let Some((_, Verdict::Flood { earned: true, .. })) = sent.arrived {
            world
                .watch
                .wrong("pace", format!("request {number} to {} came too soon", sent.chat));
        }
    }
}
