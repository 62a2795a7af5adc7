//! What clients must have been told.

use std::collections::BTreeMap;

use domain::problem::Code;
use domain::turn::FailureCode;
use domain::turn::protocol::problem_code;

use super::Turn;
use crate::world::World;
use crate::world::record::{Attempt, Ending, marks};

/// No client waits longer than this for word of its message: the request's deadline, one lease of another run, and the
/// tries to reach the database.
const PATIENCE: i64 = 300_000;

pub fn answered_in_time(world: &World) {
    for attempt in world.attempts.borrow().iter() {
        if attempt.took > PATIENCE {
            world.watch.wrong(
                "answered_in_time",
                format!("key {} waited {} ms", attempt.key, attempt.took),
            );
        }
    }
}

pub fn check(world: &World, turns: &[Turn]) {
    let by_id: BTreeMap<&str, &Turn> = turns.iter().map(|turn| (turn.id.as_str(), turn)).collect();
    let by_key: BTreeMap<(usize, &str, String), &Turn> = turns
        .iter()
        .map(|turn| ((turn.user, turn.channel.as_str(), turn.key_hash.clone()), turn))
        .collect();
    for attempt in world.attempts.borrow().iter() {
        let channel = if attempt.gateway { "telegram" } else { "direct" };
        let turn = by_key
            .get(&(attempt.user, channel, format!("key {}", attempt.key)))
            .copied();
        if let Some(told) = &attempt.told_turn
            && turn.is_none_or(|turn| turn.id != *told)
        {
            world.watch.wrong(
                "replay",
                format!("key {} was told of {told}, which is not its turn", attempt.key),
            );
        }
        check_ending(world, attempt, turn);
        check_shown(world, attempt, turn);
        check_isolation(world, attempt);
    }
    for (id, reply) in world.viewed.borrow().iter() {
        let turn = by_id.get(id.as_str()).copied();
        if turn.and_then(|turn| turn.answer.as_ref()) != Some(reply) {
            world
                .watch
                .wrong("replay", format!("{id} was viewed with another answer"));
        }
    }
    for id in world.acknowledged.borrow().iter() {
        let count = by_id.get(id.as_str()).map(|turn| {
            turn.events
                .iter()
                .filter(|(name, _)| name == "client_acknowledged")
                .count()
        });
        if count != Some(1) {
            world
                .watch
                .wrong("acknowledged", format!("{id}: {count:?} acknowledgments"));
        }
    }
    for call in world.calls.all() {
        let texts = call.history.iter().map(|(_, text)| text).chain([&call.question]);
        if texts.flat_map(|text| marks(text)).any(|mark| mark != call.user) {
            world.watch.wrong(
                "isolation",
                format!("a prompt of user {} holds another's words", call.user),
            );
        }
    }
    check_repeats(world, turns);
    let attempts = world.attempts.borrow();
    for turn in turns
        .iter()
        .filter(|turn| turn.events.iter().any(|(name, _)| name == "response_committed"))
    {
        let took = |attempt: &Attempt| {
            attempt.told_turn.as_ref() == Some(&turn.id) && matches!(attempt.ending, Ending::Answer { .. })
        };
        let taken = attempts.iter().any(took);
        world.watch.that(taken, "honest_commit", || {
            format!("{}: no client took its answer", turn.id)
        });
    }
}

fn check_ending(world: &World, attempt: &Attempt, turn: Option<&Turn>) {
    let name = format!("key {}.{} of user {}", attempt.key, attempt.variant, attempt.user);
    let mine = turn.filter(|turn| turn.request_hash == attempt.request_hash);
    match &attempt.ending {
        Ending::Answer { answer, .. } => {
            let Some(turn) = mine else {
                return world
                    .watch
                    .wrong("replay", format!("{name} was answered, but its turn is another's"));
            };
            let stored = turn.answer.as_deref() == Some(&answer.reply);
            if !stored
                || turn.revision_written != Some(answer.context_revision)
                || turn.session != answer.session_id.as_str()
            {
                world.watch.wrong(
                    "replay",
                    format!("{name}: told {:?}, stored {:?}", answer.reply, turn.answer),
                );
            }
        }
        Ending::Refused(refusal) => match refusal.code {
            Code::Internal => world
                .watch
                .wrong("no_defect", format!("{name} was told of an internal error")),
            Code::IdempotencyKeyReused => {
                let reused = turn.is_some() && mine.is_none();
                world.watch.that(reused, "replay", || {
                    format!("{name} was told that its key was reused, and it was not")
                });
            }
            Code::Forbidden => {
                world.watch.that(attempt.gateway, "honest_refusal", || {
                    format!("{name} was told that it may not")
                });
            }
            _ if refusal.new_key_required => check_failure(world, &name, refusal.code, mine),
            _ => {}
        },
        Ending::Lost | Ending::Left => {}
    }
}

/// A client that was told to use a new key must never find an answer under the old one.
fn check_failure(world: &World, name: &str, told: Code, turn: Option<&Turn>) {
    let ended = turn.and_then(|turn| turn.error.as_deref()).and_then(FailureCode::parse);
    let deleted = told == problem_code(FailureCode::SubjectDeleted);
    if !deleted && ended.map(problem_code) != Some(told) {
        world.watch.wrong(
            "honest_failure",
            format!("{name} was told {}, the turn ended {ended:?}", told.slug()),
        );
    }
}

/// What was shown is part of the stored answer, unless the turn is on record as failed.
fn check_shown(world: &World, attempt: &Attempt, turn: Option<&Turn>) {
    if attempt.shown.is_empty() {
        return;
    }
    let shown: String = attempt.shown.iter().map(|(_, text)| text.as_str()).collect();
    let Some(turn) = turn else {
        return world.watch.wrong(
            "shown",
            format!("{shown:?} was shown and no turn stands under key {}", attempt.key),
        );
    };
    match &turn.answer {
        Some(answer) if answer.starts_with(&shown) => {}
        None if turn.status == "terminal_failure" => {}
        answer => world
            .watch
            .wrong("shown", format!("{}: shown {shown:?}, stored {answer:?}", turn.id)),
    }
    if !turn.shown {
        world
            .watch
            .wrong("shown", format!("{}: shown, but that is not on record", turn.id));
    }
}

fn check_isolation(world: &World, attempt: &Attempt) {
    let reply = match &attempt.ending {
        Ending::Answer { answer, .. } => answer.reply.as_str(),
        Ending::Refused(_) | Ending::Lost | Ending::Left => "",
    };
    let shown = attempt.shown.iter().map(|(_, text)| text.as_str());
    if shown.chain([reply]).flat_map(marks).any(|mark| mark != attempt.user) {
        world
            .watch
            .wrong("isolation", format!("user {} was shown another's words", attempt.user));
    }
}

/// The model is asked again only when nothing of the interrupted answer was shown.
fn check_repeats(world: &World, turns: &[Turn]) {
    let calls = world.calls.all();
    let attempts = world.attempts.borrow();
    for turn in turns {
        let starts: Vec<u64> = calls
            .iter()
            .filter(|call| call.question == turn.question)
            .map(|call| call.step)
            .collect();
        let Some(second) = starts.get(1) else { continue };
        let shown_before = attempts
            .iter()
            .any(|attempt| attempt.words == turn.question && attempt.shown.iter().any(|(step, _)| step < second));
        if shown_before {
            world.watch.wrong(
                "repeated_unseen",
                format!("{}: asked again after a part was shown", turn.id),
            );
        }
    }
}
