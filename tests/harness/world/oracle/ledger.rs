//! What the ledger must hold.

use std::collections::{BTreeMap, BTreeSet};

use domain::sql::{Row, Value};
use domain::turn::recovery::MODEL_CALLS_MAX;
use domain::turn::{EventType, FailureCode, Status, replay};
use store::ledger::run::HISTORY_MAX;

use super::Turn;
use crate::sqlite::Database;
use crate::world::model::Calls;
use crate::world::people::People;
use crate::world::watch::Watch;

/// Less than this after the previous message of a conversation, a message continues its session.
const SESSION_GAP: i64 = 30 * 60_000;

/// What the rules are checked on.
pub struct Ledger<'a> {
    pub database: &'a Database,
    pub people: &'a People,
    pub calls: &'a Calls,
    pub watch: &'a Watch,
}

/// Every turn, by user and arrival.
pub fn read(world: &Ledger<'_>) -> Vec<Turn> {
    let sql =
        "SELECT t.*, (SELECT m.content_sealed FROM messages m WHERE m.turn_id = t.turn_id AND m.role = 'user') AS q,
                 (SELECT m.content_sealed FROM messages m WHERE m.turn_id = t.turn_id AND m.role = 'assistant') AS a
               FROM turns t ORDER BY t.user_id, t.arrival_no";
    let rows = world.database.query(sql, &[]);
    rows.iter().map(|row| turn(world, row)).collect()
}

fn turn(world: &Ledger<'_>, row: &Row) -> Turn {
    let text = |column: &str| row.text(column).expect("text").to_owned();
    let integer = |column: &str| row.integer(column).expect("an integer");
    let id = text("turn_id");
    let user = world
        .people
        .all
        .iter()
        .position(|person| Ok(person.user.as_str()) == row.text("user_id"));
    let user = user.expect("a user of this world");
    let said = |column: &str, role: &str| {
        let sealed = row.optional_blob(column).expect("a blob or NULL")?;
        Some(
            world
                .people
                .read(user, &id, role, sealed)
                .unwrap_or_else(|| "(unreadable)".to_owned()),
        )
    };
    Turn {
        user,
        key_hash: text("idempotency_key_hash"),
        channel: text("channel"),
        gateway: row
            .optional_text("gateway_id")
            .expect("an id or NULL")
            .map(str::to_owned),
        request_hash: text("request_hash"),
        conversation: text("conversation_id"),
        session: text("session_id"),
        arrival: integer("arrival_no"),
        status: text("status"),
        error: row
            .optional_text("error_code")
            .expect("text or NULL")
            .map(str::to_owned),
        model_calls: integer("model_calls"),
        shown: row.flag("shown").expect("a flag"),
        revision_read: integer("context_revision_read"),
        revision_written: row
            .optional_integer("context_revision_write")
            .expect("an integer or NULL"),
        accepted_at: integer("accepted_at"),
        question: said("q", "user").unwrap_or_default(),
        answer: said("a", "assistant"),
        events: events(world, &id),
        id,
    }
}

fn events(world: &Ledger<'_>, turn: &str) -> Vec<(String, Option<i64>)> {
    let sql = "SELECT sequence_no, event_type, attempt_no FROM turn_events WHERE turn_id = ?1 ORDER BY sequence_no";
    let rows = world.database.query(sql, &[turn.into()]);
    for (at, row) in rows.iter().enumerate() {
        if row.integer("sequence_no") != Ok(at as i64 + 1) {
            world
                .watch
                .wrong("legal_events", format!("{turn}: a gap before event {}", at + 1));
        }
    }
    let event = |row: &Row| {
        (
            row.text("event_type").expect("text").to_owned(),
            row.optional_integer("attempt_no").expect("a number"),
        )
    };
    rows.iter().map(event).collect()
}

/// Checks every rule that the ledger alone can break.
pub fn check(world: &Ledger<'_>, turns: &[Turn]) {
    for turn in turns {
        check_end(world, turn);
        check_events(world, turn);
        check_calls(world, turn);
    }
    for user in 0..world.people.all.len() {
        let own: Vec<&Turn> = turns.iter().filter(|turn| turn.user == user).collect();
        check_order(world, user, &own);
        check_sessions(world, &own);
        check_history(world, &own);
    }
    let old = "SELECT key_id FROM data_keys WHERE destroyed_at IS NULL AND master_version < 2";
    let old = world.database.query(old, &[]).len();
    world.watch.that(old == 0, "rotated", || {
        format!("{old} keys are still wrapped under the old master secret")
    });
    let free = "SELECT user_id FROM user_heads WHERE run_token IS NOT NULL";
    for row in world.database.query(free, &[]) {
        world.watch.wrong(
            "line_freed",
            format!("the line of {:?} is still taken", row.text("user_id")),
        );
    }
}

fn check_end(world: &Ledger<'_>, turn: &Turn) {
    if Status::parse(&turn.status).is_none_or(|status| !status.is_terminal()) {
        world
            .watch
            .wrong("turn_ends", format!("{} is still {}", turn.id, turn.status));
    }
    // Only an answer that is stored can fail to be handed over.
    let stored = |code: &str| FailureCode::parse(code).is_some_and(|code| !code.new_key_required());
    let answered = turn.status == "terminal_success" || turn.error.as_deref().is_some_and(stored);
    if answered != turn.answer.is_some() {
        let error = turn.error.as_deref().unwrap_or("no error");
        world.watch.wrong(
            "one_answer",
            format!("{} ended {} ({error}), answer: {:?}", turn.id, turn.status, turn.answer),
        );
    }
}

fn check_events(world: &Ledger<'_>, turn: &Turn) {
    let types: Option<Vec<EventType>> = turn.events.iter().map(|(name, _)| EventType::parse(name)).collect();
    match types.map(replay) {
        Some(Ok(Some(status))) if status.as_str() == turn.status => {}
        Some(Ok(status)) => {
            world.watch.wrong(
                "legal_events",
                format!("{} is {} but its events say {status:?}", turn.id, turn.status),
            );
        }
        Some(Err(step)) => world.watch.wrong("legal_events", format!("{}: {step:?}", turn.id)),
        None => world
            .watch
            .wrong("legal_events", format!("{}: an unknown event", turn.id)),
    }
    let of = |wanted: &str| {
        turn.events
            .iter()
            .filter(|(name, _)| name == wanted)
            .map(|(_, call)| *call)
            .collect::<Vec<_>>()
    };
    let (started, completed) = (of("generation_started"), of("generation_completed"));
    if !completed.is_empty() && completed.last() != started.last() {
        world.watch.wrong(
            "run_held",
            format!("{}: the answer of call {completed:?} after {started:?}", turn.id),
        );
    }
    let failed = of("generation_failed");
    if !failed.is_empty() && failed.last() != started.last() {
        world.watch.wrong(
            "run_held",
            format!("{}: the failure of call {failed:?} after {started:?}", turn.id),
        );
    }
}

fn check_calls(world: &Ledger<'_>, turn: &Turn) {
    let calls = world.calls.all();
    let made = calls.iter().filter(|call| call.question == turn.question).count() as i64;
    if turn.model_calls > MODEL_CALLS_MAX || made > turn.model_calls {
        world.watch.wrong(
            "model_calls",
            format!("{}: {made} calls, {} on record", turn.id, turn.model_calls),
        );
    }
    let started = turn
        .events
        .iter()
        .filter(|(name, _)| name == "generation_started")
        .count() as i64;
    if started != turn.model_calls {
        world.watch.wrong(
            "model_calls",
            format!("{}: {started} starts, {} on record", turn.id, turn.model_calls),
        );
    }
}

fn check_order(world: &Ledger<'_>, user: usize, own: &[&Turn]) {
    let arrivals: Vec<i64> = own.iter().map(|turn| turn.arrival).collect();
    let wanted: Vec<i64> = (1..=own.len() as i64).collect();
    if arrivals != wanted {
        world
            .watch
            .wrong("arrival_order", format!("user {user}: arrivals {arrivals:?}"));
    }
    // One at a time and in order means that each answer wrote the revision right after the one it read.
    let mut revision = 0;
    for turn in own {
        if let Some(written) = turn.revision_written {
            if turn.revision_read != revision || written != revision + 1 {
                let seen = (turn.revision_read, written);
                world.watch.wrong(
                    "revisions",
                    format!("{}: read and wrote {seen:?} at revision {revision}", turn.id),
                );
            }
            revision = written;
        }
    }
    let keys: BTreeSet<(&str, &str)> = own
        .iter()
        .map(|turn| (turn.channel.as_str(), turn.key_hash.as_str()))
        .collect();
    if keys.len() != own.len() {
        world.watch.wrong(
            "one_turn_per_key",
            format!("user {user}: {} turns, {} keys", own.len(), keys.len()),
        );
    }
    let sql = "SELECT h.revision, h.arrivals FROM user_heads h WHERE h.user_id = ?1";
    let rows = world.database.query(sql, &[Value::from(&world.people.all[user].user)]);
    if let Some(row) = rows.first()
        && (row.integer("revision") != Ok(revision) || row.integer("arrivals") != Ok(own.len() as i64))
    {
        world
            .watch
            .wrong("revisions", format!("user {user}: the head is not where the turns are"));
    }
}

fn check_sessions(world: &Ledger<'_>, own: &[&Turn]) {
    let mut last: BTreeMap<&str, (i64, &str)> = BTreeMap::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for turn in own {
        let known = last.get(turn.conversation.as_str()).copied();
        let continues = known.is_some_and(|(at, _)| turn.accepted_at - at < SESSION_GAP);
        let same = known.is_some_and(|(_, session)| session == turn.session);
        if continues != same || (!continues && seen.contains(turn.session.as_str())) {
            let gap = known.map(|(at, _)| turn.accepted_at - at);
            world
                .watch
                .wrong("session_gap", format!("{}: gap {gap:?}, same session: {same}", turn.id));
        }
        let at = known.map_or(turn.accepted_at, |(at, _)| at.max(turn.accepted_at));
        last.insert(&turn.conversation, (at, &turn.session));
        seen.insert(&turn.session);
    }
    let places: BTreeSet<(&str, Option<&str>, &str)> = own
        .iter()
        .map(|turn| {
            (
                turn.channel.as_str(),
                turn.gateway.as_deref(),
                turn.conversation.as_str(),
            )
        })
        .collect();
    let channels: BTreeSet<(&str, Option<&str>)> = own
        .iter()
        .map(|turn| (turn.channel.as_str(), turn.gateway.as_deref()))
        .collect();
    world.watch.that(places.len() == channels.len(), "session_gap", || {
        format!("conversations {places:?}")
    });
    let foreign = "SELECT t.turn_id FROM turns t JOIN conversations c ON c.conversation_id = t.conversation_id
                   WHERE c.user_id <> t.user_id OR c.channel <> t.channel";
    let foreign = world.database.query(foreign, &[]).len();
    world.watch.that(foreign == 0, "isolation", || {
        format!("{foreign} turns in foreign conversations")
    });
}

/// Each call of the model was given the session's earlier messages, all of them and in order.
fn check_history(world: &Ledger<'_>, own: &[&Turn]) {
    for call in world.calls.all() {
        let Some(at) = own.iter().position(|turn| turn.question == call.question) else {
            continue;
        };
        let turn = own[at];
        let mut wanted = Vec::new();
        for earlier in own[..at].iter().filter(|other| other.session == turn.session) {
            wanted.push((true, earlier.question.clone()));
            wanted.extend(earlier.answer.iter().map(|answer| (false, answer.clone())));
        }
        let skip = wanted.len().saturating_sub(HISTORY_MAX as usize);
        if call.history != wanted[skip..] {
            world.watch.wrong(
                "history",
                format!("{}: given {:?}, wanted {:?}", turn.id, call.history, &wanted[skip..]),
            );
        }
    }
}
