//! One user's object over the native database, without a simulated world: for stories told step by step.

use std::cell::Cell;
use std::rc::Rc;

use domain::auth::{AuthMethod, Principal, Subject};
use domain::http::context::{Channel, RequestContext};
use domain::ids::{DataKeyId, FamilyId, RequestId, TokenId, TurnId, UserId};
use domain::keys::{DataKey, KeySubject, MasterSecrets};
use domain::ports::Clock;
use domain::sql::Row;
use domain::time::{Millis, Timestamp};
use domain::turn::protocol::{ChatAnswer, ChatCommand, ChatRefusal, Costs, Frame};
use futures::FutureExt;
use futures::channel::mpsc;
use harness::block_on;
use harness::rng::Rng;
use harness::sqlite::TestSql;
use objects::user_turns::{Listener, TurnConfig, UserTurns};

use super::ports::{Answers, DeskAlarm, DeskClock, DeskModel, DeskPorts, DeskSends, PanicAt, Tasks};

const SECRETS: &str =
    r#"{"current":1,"versions":{"1":"AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="},"hash_version":1}"#;

/// How a message ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    Answered {
        answer: Box<ChatAnswer>,
        replayed: bool,
        costs: Costs,
        deltas: usize,
    },
    Refused(ChatRefusal),
    /// The object broke off without a word.
    BrokenOff,
}

impl Ending {
    pub fn answer(self) -> ChatAnswer {
        match self {
            Self::Answered { answer, .. } => *answer,
            other => panic!("not answered: {other:?}"),
        }
    }

    pub fn refusal(self) -> ChatRefusal {
        match self {
            Self::Refused(refusal) => refusal,
            other => panic!("not refused: {other:?}"),
        }
    }
}

/// The object of one user, and everything around it.
pub struct Desk {
    pub sql: TestSql,
    pub clock: DeskClock,
    pub model: DeskModel,
    pub panic_at: PanicAt,
    pub alarm: DeskAlarm,
    pub sends: DeskSends,
    entropy: Rng,
    pub secrets: Rc<MasterSecrets>,
    tasks: Tasks,
    ports: DeskPorts,
    config: TurnConfig,
    object: Rc<UserTurns<DeskPorts>>,
    pub user: UserId,
    family: FamilyId,
}

impl Desk {
    pub fn new() -> Self {
        let sql = TestSql::new();
        let clock = DeskClock(Rc::new(Cell::new(Timestamp::from_millis(1_783_728_000_000))));
        let model = DeskModel {
            answers: Rc::new(Cell::new(Answers::Well)),
            calls: Rc::default(),
        };
        let entropy = Rng::new(7);
        let secrets = Rc::new(MasterSecrets::from_json(SECRETS).unwrap());
        let user = UserId::parse("user_00ann").unwrap();
        let family = FamilyId::parse("family_00oak").unwrap();
        settle(&sql, &clock, &entropy, &secrets, &user);
        let tasks = Tasks::default();
        let panic_at = PanicAt::default();
        let alarm = DeskAlarm::default();
        let sends = DeskSends::default();
        let ports = DeskPorts {
            sql: sql.clone(),
            clock: clock.clone(),
            entropy: Rng::new(8),
            tasks: tasks.clone(),
            model: model.clone(),
            panic_at: panic_at.clone(),
            alarm: alarm.clone(),
            sends: sends.clone(),
        };
        let config = TurnConfig {
            line_max: 2,
            ..TurnConfig::default()
        };
        let object = UserTurns::new(ports.clone(), user.clone(), Rc::clone(&secrets), config);
        Self {
            secrets,
            ports,
            config,
            sql,
            clock,
            model,
            panic_at,
            alarm,
            sends,
            entropy,
            tasks,
            object,
            user,
            family,
        }
    }

    pub fn pass(&self, duration: Millis) {
        self.clock.0.set(self.clock.now().plus(duration));
    }

    /// Sends a message and lets everything happen that it sets going.
    pub fn say(&self, key: &str, message: &str) -> Ending {
        self.send(self.command(key, message, false))
    }

    /// The same, watching the answer grow.
    pub fn watch(&self, key: &str, message: &str) -> Ending {
        self.send(self.command(key, message, true))
    }

    pub fn send(&self, command: ChatCommand) -> Ending {
        let frames = self.hand_in(command);
        self.work();
        ending(frames)
    }

    /// Hands a message in without letting the object work on it.
    pub fn hand_in(&self, command: ChatCommand) -> mpsc::UnboundedReceiver<Frame> {
        let (sender, frames) = mpsc::unbounded();
        let listener = Listener::new(sender, command.stream);
        block_on(Rc::clone(&self.object).chat(command, listener));
        frames
    }

    /// Hands a message in that stops in the middle: where a checkpoint was told to, or behind one that did.
    pub fn begin(&self, command: ChatCommand) -> (impl Future<Output = ()>, mpsc::UnboundedReceiver<Frame>) {
        let (sender, frames) = mpsc::unbounded();
        let listener = Listener::new(sender, command.stream);
        let mut chat = Box::pin(Rc::clone(&self.object).chat(command, listener));
        assert!((&mut chat).now_or_never().is_none(), "it did not stop");
        (chat, frames)
    }

    /// Hands a message in as the platform does: in a task of its own.
    pub fn receive(&self, command: ChatCommand) -> Ending {
        let (sender, frames) = mpsc::unbounded();
        let listener = Listener::new(sender, command.stream);
        self.object.receive(command, listener);
        self.work();
        ending(frames)
    }

    /// The object dies with everything it was at, and a new one comes to life.
    pub fn restart(&mut self) {
        self.tasks.0.borrow_mut().clear();
        self.object = UserTurns::new(
            self.ports.clone(),
            self.user.clone(),
            Rc::clone(&self.secrets),
            self.config,
        );
    }

    /// The object is told to look for unfinished work.
    pub fn wake(&self) {
        self.object.wake();
        self.work();
    }

    /// The same, up to where it stops.
    pub fn wake_until_it_stops(&self) {
        self.object.wake();
        let first = self.tasks.0.borrow_mut().remove(0);
        assert!(first.now_or_never().is_none(), "it did not stop");
    }

    /// The object's alarm rings.
    pub fn ring(&self) {
        block_on(self.object.alarm());
        self.work();
    }

    /// Runs every task there is, the oldest first.
    pub fn work(&self) {
        loop {
            let mut tasks = self.tasks.0.take().into_iter();
            let Some(first) = tasks.next() else { return };
            self.tasks.0.borrow_mut().extend(tasks);
            block_on(first);
        }
    }

    pub fn command(&self, key: &str, message: &str, stream: bool) -> ChatCommand {
        let now = self.clock.now();
        ChatCommand {
            context: RequestContext {
                request_id: RequestId::mint(now, &self.entropy),
                client_request_id: None,
                turn_id: TurnId::mint(now, &self.entropy),
                idempotency_key_hash: key.to_owned(),
                principal: self.principal(),
                user_id: self.user.clone(),
                family_id: self.family.clone(),
                channel: Channel::Direct,
                gateway_id: None,
                locale: None,
                timezone: None,
                received_at: now,
                deadline_at: now.plus(Millis::from_secs(90)),
                source_address_hash: None,
                trace_id: "0".repeat(32),
                parent_turn_id: None,
                feature_flags: vec![],
            },
            conversation_id: None,
            message: message.to_owned(),
            request_hash: format!("hash of {message}"),
            stream,
        }
    }

    fn principal(&self) -> Principal {
        let now = Timestamp::from_millis(self.clock.now().as_secs() * 1_000);
        Principal {
            subject: Subject::User(self.user.clone()),
            family: Some(self.family.clone()),
            roles: vec![],
            scopes: vec![],
            jti: TokenId::parse("jwt_00desk").unwrap(),
            auth_method: AuthMethod::UserJwt,
            gateway: None,
            revision: 1,
            issued_at: now,
            expires_at: now.plus(Millis::from_mins(60)),
            idp: None,
            idp_sub: None,
        }
    }

    /// Every turn as `status` or `status code`, in arrival order.
    pub fn turns(&self) -> Vec<String> {
        let sql = "SELECT status || ifnull(' ' || error_code, '') AS turn FROM turns ORDER BY arrival_no";
        self.texts(sql, "turn")
    }

    /// The event types of the only or the latest turn, in order.
    pub fn events(&self) -> Vec<String> {
        let sql = "SELECT event_type FROM turn_events WHERE turn_id =
            (SELECT turn_id FROM turns ORDER BY arrival_no DESC LIMIT 1) ORDER BY sequence_no";
        self.texts(sql, "event_type")
    }

    pub fn texts(&self, sql: &str, column: &str) -> Vec<String> {
        self.sql
            .query(sql, &[])
            .iter()
            .map(|row: &Row| row.text(column).unwrap().to_owned())
            .collect()
    }
}

/// Reads what a listener was told.
pub fn ending(mut frames: mpsc::UnboundedReceiver<Frame>) -> Ending {
    let mut deltas = 0;
    while let Ok(frame) = frames.try_recv() {
        match frame {
            Frame::Turn { .. } => {}
            Frame::Delta { .. } => deltas += 1,
            Frame::Done {
                answer,
                replayed,
                costs,
                ..
            } => {
                return Ending::Answered {
                    answer,
                    replayed,
                    costs,
                    deltas,
                };
            }
            Frame::Refused { refusal, .. } => return Ending::Refused(refusal),
        }
    }
    Ending::BrokenOff
}

fn settle(sql: &TestSql, clock: &DeskClock, entropy: &Rng, secrets: &MasterSecrets, user: &UserId) {
    let key = DataKey::generate(
        DataKeyId::parse("key_00ann").unwrap(),
        KeySubject::User(user.clone()),
        entropy,
    );
    let wrapped = secrets.wrap(&key, entropy).unwrap();
    sql.execute(
        "INSERT INTO families VALUES ('family_00oak', 'active', 0, 0);
         INSERT INTO users (user_id, family_id, role, status, authorization_revision, created_at, updated_at)
         VALUES ('user_00ann', 'family_00oak', 'guardian', 'active', 1, 0, 0);",
    );
    sql.run(user.shard(), &[store::keys::insert_key(&key, &wrapped, clock.now())]);
}
