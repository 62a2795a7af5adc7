//! A turn's deliveries, as its owner sees them.

use std::rc::Rc;

use domain::ids::TurnId;
use domain::outbox::outcome::{ErrorClass, ErrorCode};
use domain::outbox::{SendChannel, Status};
use domain::time::Millis;
use harness::block_on;
use objects::handover::{TurnView, view_turn};
use store::db::Db;

use super::counter::{Counter, Provider};

fn view(counter: &Counter) -> TurnView {
    let desk = &counter.desk;
    let turn = desk
        .texts("SELECT turn_id FROM turns ORDER BY arrival_no DESC", "turn_id")
        .remove(0);
    let principal = desk.command("", "", false).context.principal;
    let db = Db::new(&desk.sql, &desk.clock, Rc::default());
    let turn = TurnId::parse(&turn).unwrap();
    let trips = desk.sql.trips();
    let viewed = block_on(view_turn(&db, &desk.secrets, &principal, &desk.user, &turn));
    assert_eq!(desk.sql.trips() - trips, 1);
    viewed.unwrap_or_else(|error| panic!("{error:?}"))
}

#[test]
fn a_direct_turn_has_no_deliveries() {
    let counter = Counter::new();
    counter.desk.say("key", "hello");
    assert_eq!(view(&counter).deliveries, []);
}

#[test]
fn every_attempt_is_shown_with_what_came_of_it() {
    let mut counter = Counter::new();
    counter.answer("key", "hello");
    assert_eq!(view(&counter).deliveries[0].attempts, []);
    counter.send(Provider::IsDown);
    counter.desk.pass(Millis::from_mins(1));
    counter.claim();
    let view = view(&counter);
    assert_eq!(view.reply.as_deref(), Some("answer to hello"));
    let [delivery] = view.deliveries.as_slice() else {
        panic!("{:?}", view.deliveries)
    };
    assert_eq!((delivery.channel, delivery.notice), (SendChannel::Telegram, false));
    assert_eq!((delivery.part, delivery.parts, delivery.status), (1, 1, Status::Leased));
    let [first, second] = delivery.attempts.as_slice() else {
        panic!("{:?}", delivery.attempts)
    };
    assert_eq!((first.attempt, first.outcome.as_deref()), (1, Some("retry")));
    assert_eq!(
        (first.error_class, first.error_code),
        (Some(ErrorClass::Provider), Some(ErrorCode::ServerError))
    );
    assert_eq!(first.finished_at, Some(first.started_at));
    assert_eq!(
        (second.attempt, second.finished_at, second.outcome.as_deref()),
        (2, None, None)
    );
}

#[test]
fn a_notice_stands_behind_the_answer_it_is_about() {
    let mut counter = Counter::new();
    counter.answer("key", "hello");
    counter.send(Provider::RefusesTheWords);
    let kinds: Vec<_> = view(&counter)
        .deliveries
        .iter()
        .map(|one| (one.notice, one.status))
        .collect();
    assert_eq!(kinds, [(false, Status::Failed), (true, Status::Pending)]);
}
