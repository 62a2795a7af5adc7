//! From the webhook to the provider and nothing pretended in between: the ingress, the person's object, the outbox and
//! the consumer of sends over one database.

use std::cell::Cell;
use std::rc::Rc;

use domain::auth::webhook::secret_hash;
use domain::ids::{GatewayId, RequestId};
use domain::job::{Job, JobMessage};
use domain::model::ModelError;
use domain::outbox::template::Template;
use domain::ports::Clock;
use domain::turn::{EventType, Status, replay};
use harness::block_on;
use harness::rng::Rng;
use objects::ingress::{Delivery, Taken, Webhook};
use objects::user_turns::{TurnConfig, UserTurns};

use crate::chat::ports::{Answers, DeskAlarm, DeskClock, DeskModel, DeskPorts, DeskSends, PanicAt, Tasks};
use crate::deliver::office::{BOT, CHAT, Office, answer};
use crate::ingress::desk::{Reached, text_update};

const SECRET: &str = "synthetic-webhook-secret";

struct Whole {
    office: Office,
    clock: DeskClock,
    model: DeskModel,
    sends: DeskSends,
    tasks: Tasks,
    object: Rc<UserTurns<DeskPorts>>,
}

impl Whole {
    fn new() -> Self {
        let office = Office::new();
        let hash = secret_hash(&office.ports.secrets, &bot(), SECRET);
        office
            .sql
            .execute(&format!("UPDATE gateways SET webhook_secret_hash = '{hash}'"));
        let clock = DeskClock(Rc::new(Cell::new(office.ports.clock.now())));
        let model = DeskModel {
            answers: Rc::new(Cell::new(Answers::Well)),
            calls: Rc::default(),
        };
        let (sends, tasks) = (DeskSends::default(), Tasks::default());
        let ports = DeskPorts {
            sql: office.sql.clone(),
            clock: clock.clone(),
            entropy: Rng::new(21),
            tasks: tasks.clone(),
            model: model.clone(),
            panic_at: PanicAt::default(),
            alarm: DeskAlarm::default(),
            sends: sends.clone(),
        };
        let secrets = Rc::clone(&office.ports.secrets);
        let object = UserTurns::new(ports, office.user.clone(), secrets, TurnConfig::default());
        Self {
            office,
            clock,
            model,
            sends,
            tasks,
            object,
        }
    }

    /// The bot is told that the person wrote something.
    fn update(&self, id: i64, text: &str) -> Taken {
        let now = self.office.ports.clock.now();
        self.clock.0.set(now);
        let secrets = &self.office.ports.secrets;
        let hash = secret_hash(secrets, &bot(), SECRET);
        let (reached, entropy) = (Reached::default(), Rng::new(id.unsigned_abs()));
        let webhook = Webhook {
            sql: &self.office.sql,
            clock: &self.clock,
            entropy: &entropy,
            checkpoint: &reached,
            secrets,
            line_max: 32,
        };
        let body = text_update(id, CHAT.parse().unwrap(), text).to_string();
        let delivery = Delivery {
            gateway_id: &bot(),
            secret_hash: Some(&hash),
            body: &body,
            request_id: &RequestId::mint(now, &entropy),
            client_request_id: None,
            trace_id: "0123456789abcdef0123456789abcdef",
            source_address_hash: None,
            received_at: now,
        };
        block_on(webhook.receive(&delivery, Rc::default())).unwrap()
    }

    /// Does what a message of the jobs queue asks for.
    fn generate(&self, order: &JobMessage) {
        let user_id = self.office.user.clone();
        assert_eq!(order.job, Job::Generate { user_id });
        self.object.wake();
        loop {
            let mut tasks = self.tasks.0.take().into_iter();
            let Some(first) = tasks.next() else { return };
            self.tasks.0.borrow_mut().extend(tasks);
            block_on(first);
        }
    }

    /// Has consumed what the object put on the sends queue.
    fn deliver(&self) {
        let orders = self.sends.0.take();
        assert_eq!(orders, [self.office.order()]);
        self.office.consume(orders);
    }

    /// Where the turn stands by its events, each of which the table of steps allows.
    fn replayed(&self) -> Status {
        let events = "SELECT event_type FROM turn_events ORDER BY turn_id, sequence_no";
        let events = self.office.lines(events, &["event_type"]);
        let events = events.iter().map(|name| EventType::parse(name).unwrap());
        replay(events).unwrap().unwrap()
    }
}

fn bot() -> GatewayId {
    GatewayId::parse(BOT).unwrap()
}

#[test]
fn a_question_in_the_chat_is_answered_in_the_chat() {
    let whole = Whole::new();
    let taken = whole.update(70, "hello");
    whole.generate(taken.order.as_ref().unwrap());
    whole.deliver();
    assert_eq!(whole.office.texts(), ["answer to hello"]);
    assert_eq!(whole.office.sent.borrow()[0].chat_id.to_string(), CHAT);
    assert_eq!(whole.office.turns(), ["terminal_success -"]);
    assert_eq!(whole.replayed(), Status::TerminalSuccess);
    // The same update again asks nobody and sends nothing.
    let again = whole.update(70, "hello");
    assert_eq!((again.disposition, again.order), (None, None));
    assert_eq!(whole.model.calls.get(), 1);
}

#[test]
fn a_long_answer_arrives_whole_and_in_order_through_a_flood() {
    let whole = Whole::new();
    let text = "Ein längerer Satz mit 😀 und Umlauten, der irgendwo geschnitten wird. ".repeat(300);
    whole
        .model
        .answers
        .set(Answers::With(Box::leak(text.clone().into_boxed_str())));
    let flood = r#"{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 7","parameters":{"retry_after":7}}"#;
    whole.office.answers.borrow_mut().push_back(answer(429, flood));
    let taken = whole.update(70, "tell me all");
    whole.generate(taken.order.as_ref().unwrap());
    whole.deliver();
    for _ in 0..20 {
        whole.office.pass(10_000);
        whole.office.deliver();
    }
    let texts = whole.office.texts();
    assert_eq!(texts[0], texts[1], "the part that was refused goes first again");
    let joined: String = texts[1..].concat();
    assert_eq!(joined.trim_end(), text.trim_end());
    assert!(texts.iter().all(|part| part.encode_utf16().count() <= 4_096));
    assert_eq!(whole.office.turns(), ["terminal_success -"]);
    assert_eq!(whole.replayed(), Status::TerminalSuccess);
}

#[test]
fn a_question_that_gets_no_answer_gets_a_notice_in_the_chat() {
    let whole = Whole::new();
    whole.model.answers.set(Answers::Fails(ModelError::Unavailable));
    let taken = whole.update(70, "hello");
    whole.generate(taken.order.as_ref().unwrap());
    whole.deliver();
    assert_eq!(whole.office.texts(), [Template::TurnFailed.text()]);
    assert_eq!(whole.office.turns(), ["terminal_failure generation_failed"]);
    assert_eq!(whole.replayed(), Status::TerminalFailure);
}

#[test]
fn a_person_who_blocked_the_bot_ends_the_turn_in_failure() {
    let whole = Whole::new();
    let blocked = r#"{"ok":false,"error_code":403,"description":"Forbidden: bot was blocked by the user"}"#;
    whole.office.answers.borrow_mut().push_back(answer(403, blocked));
    let taken = whole.update(70, "hello");
    whole.generate(taken.order.as_ref().unwrap());
    whole.deliver();
    assert_eq!(whole.office.turns(), ["terminal_failure delivery_failed"]);
    assert_eq!(whole.replayed(), Status::TerminalFailure);
    assert_eq!(whole.office.rows(), ["failed 1 blocked"]);
}
