//! A post office for the tests: one family, one bot, rows in the outbox, and a Bot API that answers as it is told.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use domain::ids::{DataKeyId, GatewayId, UserId};
use domain::job::{Job, JobMessage};
use domain::keys::{DataKey, KeySubject, MasterSecrets};
use domain::ports::{Checkpoint, OutboundRequest, Queue, QueueError};
use domain::sql::Value;
use domain::telegram::send::Api;
use domain::time::Millis;
use harness::executor::{Executor, SimClock};
use harness::http::{Reply, SimHttp};
use harness::rng::Rng;
use harness::sqlite::TestSql;
use queues::deliver::{Alert, SendPorts, Sums, consume};
use queues::jobs::Disposition;

const SECRETS: &str =
    r#"{"current":1,"versions":{"1":"AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="},"hash_version":1}"#;
pub const BOT: &str = "gateway_00bot";
pub const CHAT: &str = "8040940969";
pub const TOKEN: &str = "11:synthetic-token";

/// What the Bot API was asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    /// Milliseconds since the beginning.
    pub at: i64,
    pub token: String,
    pub chat_id: i64,
    pub text: String,
    pub parse_mode: Option<String>,
}

/// An answer of the Bot API.
pub fn answer(status: u16, body: &str) -> Reply {
    Reply::status(status, body)
}

#[derive(Clone, Default)]
pub struct Orders(pub Rc<RefCell<Vec<(String, Millis)>>>);

impl Queue for Orders {
    async fn send(&self, body: String, delay: Millis) -> Result<(), QueueError> {
        self.0.borrow_mut().push((body, delay));
        Ok(())
    }
}

/// Stands still once at the place it is told, for as long as it is told.
#[derive(Clone)]
pub struct StopAt {
    place: Rc<Cell<(&'static str, i64)>>,
    reached: Rc<RefCell<Vec<&'static str>>>,
    executor: Executor,
}

impl Checkpoint for StopAt {
    async fn reach(&self, name: &'static str) {
        self.reached.borrow_mut().push(name);
        let (place, millis) = self.place.get();
        if place == name {
            self.place.take();
            self.executor.sleep(millis).await;
        }
    }
}

#[derive(Clone)]
pub struct Ports {
    sql: TestSql,
    pub clock: SimClock,
    entropy: Rng,
    http: SimHttp,
    orders: Orders,
    checkpoint: StopAt,
    pub secrets: Rc<MasterSecrets>,
    api: Api,
    alerts: Rc<RefCell<Vec<Alert>>>,
}

impl SendPorts for Ports {
    type Sql = TestSql;
    type Clock = SimClock;
    type Entropy = Rng;
    type Http = SimHttp;
    type Queue = Orders;
    type Checkpoint = StopAt;

    fn sql(&self) -> &TestSql {
        &self.sql
    }
    fn clock(&self) -> &SimClock {
        &self.clock
    }
    fn entropy(&self) -> &Rng {
        &self.entropy
    }
    fn http(&self) -> &SimHttp {
        &self.http
    }
    fn sends(&self) -> &Orders {
        &self.orders
    }
    fn checkpoint(&self) -> &StopAt {
        &self.checkpoint
    }
    fn secrets(&self) -> &MasterSecrets {
        &self.secrets
    }
    fn telegram(&self) -> &Api {
        &self.api
    }
    fn alert(&self, alert: Alert) {
        self.alerts.borrow_mut().push(alert);
    }
}

pub struct Office {
    pub sql: TestSql,
    pub executor: Executor,
    pub sent: Rc<RefCell<Vec<Sent>>>,
    /// What the Bot API answers next; when empty, that all is well.
    pub answers: Rc<RefCell<VecDeque<Reply>>>,
    pub ports: Ports,
    pub(super) key: DataKey,
    pub user: UserId,
    pub(super) turns: Cell<u32>,
}

impl Office {
    pub fn new() -> Self {
        let executor = Executor::new(Rng::new(11));
        let sql = TestSql::new();
        let secrets = Rc::new(MasterSecrets::from_json(SECRETS).unwrap());
        let user = UserId::parse("user_00ann").unwrap();
        let subject = KeySubject::User(user.clone());
        let key = DataKey::generate(DataKeyId::parse("key_00ann").unwrap(), subject, executor.rng());
        let sent: Rc<RefCell<Vec<Sent>>> = Rc::default();
        let answers: Rc<RefCell<VecDeque<Reply>>> = Rc::default();
        let (heard, next, timer) = (Rc::clone(&sent), Rc::clone(&answers), executor.clone());
        let http = SimHttp::new(executor.clone(), move |request| {
            let mut heard = heard.borrow_mut();
            heard.push(read(request, timer.elapsed()));
            next.borrow_mut().pop_front().unwrap_or_else(|| well(heard.len()))
        });
        let checkpoint = StopAt {
            place: Rc::default(),
            reached: Rc::default(),
            executor: executor.clone(),
        };
        let api = Api {
            base: "https://api.telegram.example/".parse().unwrap(),
            deadline: Millis::from_secs(10),
            parse_mode: Some(domain::telegram::send::ParseMode::MarkdownV2),
        };
        let ports = Ports {
            sql: sql.clone(),
            clock: SimClock::exact(&executor),
            entropy: executor.rng().fork(),
            http,
            orders: Orders::default(),
            checkpoint,
            secrets,
            api,
            alerts: Rc::default(),
        };
        let office = Self {
            sql,
            executor,
            sent,
            answers,
            ports,
            key,
            user,
            turns: Cell::new(0),
        };
        office.settle_in();
        office
    }

    pub fn order(&self) -> String {
        let gateway_id = GatewayId::parse(BOT).unwrap();
        JobMessage::new(1, Job::Deliver { gateway_id }).encode()
    }

    /// Has these messages consumed.
    pub fn consume(&self, bodies: Vec<String>) -> (Vec<Disposition>, Sums) {
        let ports = self.ports.clone();
        self.executor.block_on(async move { consume(&bodies, &ports).await })
    }

    /// Has whatever is due sent.
    pub fn deliver(&self) -> Sums {
        let (dispositions, sums) = self.consume(vec![self.order()]);
        assert_eq!(dispositions, [Disposition::Ack(queues::jobs::Acked::Done)]);
        sums
    }

    /// The next time that the consumer comes to this place, it takes so long there.
    pub fn stand_still(&self, place: &'static str, millis: i64) {
        self.ports.checkpoint.place.set((place, millis));
    }

    /// Has it sent, and kills the consumer when it stands still at `place`.
    pub fn deliver_and_die_at(&self, place: &'static str) {
        self.stand_still(place, 24 * 60 * 60 * 1_000);
        let process = self.executor.process();
        let (ports, body, doomed) = (self.ports.clone(), self.order(), process.clone());
        let timer = self.executor.clone();
        self.executor.block_on(async move {
            let work = async move {
                consume(&[body], &ports).await;
            };
            let death = async move {
                timer.sleep(30_000).await;
                doomed.kill();
            };
            futures::future::join(process.call(work), death).await;
        });
    }

    pub fn pass(&self, millis: i64) {
        let timer = self.executor.clone();
        self.executor.block_on(async move { timer.sleep(millis).await });
    }

    pub fn alerts(&self) -> Vec<Alert> {
        self.ports.alerts.borrow().clone()
    }

    pub fn checkpoints(&self) -> Vec<&'static str> {
        self.ports.checkpoint.reached.borrow().clone()
    }

    /// The orders for later, each with its delay in milliseconds.
    pub fn ordered(&self) -> Vec<(String, i64)> {
        let orders = self.ports.orders.0.borrow();
        orders.iter().map(|(body, delay)| (body.clone(), delay.get())).collect()
    }

    pub fn texts(&self) -> Vec<String> {
        self.sent.borrow().iter().map(|sent| sent.text.clone()).collect()
    }

    /// One text for each row of the answer to `sql`, its columns joined by blanks; NULL is `-`.
    pub fn lines(&self, sql: &str, columns: &[&str]) -> Vec<String> {
        let shown = |value: &Value| match value {
            Value::Null => "-".to_owned(),
            Value::Text(text) => text.clone(),
            Value::Integer(number) => number.get().to_string(),
            Value::Blob(_) => "?".to_owned(),
        };
        let rows = self.sql.query(sql, &[]);
        let line = |row: &domain::sql::Row| {
            let values = columns.iter().map(|column| shown(row.value(column).unwrap()));
            values.collect::<Vec<_>>().join(" ")
        };
        rows.iter().map(line).collect()
    }

    /// `status attempts error` of every row, in order.
    pub fn rows(&self) -> Vec<String> {
        self.lines(
            "SELECT status, attempt_count, last_error_code FROM outbound_messages ORDER BY lane, lane_no",
            &["status", "attempt_count", "last_error_code"],
        )
    }

    /// `number outcome status error` of every attempt, in order.
    pub fn attempts(&self) -> Vec<String> {
        self.lines(
            "SELECT attempt_no, outcome, provider_http_status, error_code FROM outbound_attempts
             ORDER BY outbox_id, attempt_no",
            &["attempt_no", "outcome", "provider_http_status", "error_code"],
        )
    }

    /// The events of the latest turn, without the first.
    pub fn events(&self) -> Vec<String> {
        self.lines(
            "SELECT event_type FROM turn_events WHERE turn_id = (SELECT max(turn_id) FROM turns) AND sequence_no > 1
             ORDER BY sequence_no",
            &["event_type"],
        )
    }

    /// `status error` of every turn.
    pub fn turns(&self) -> Vec<String> {
        self.lines(
            "SELECT status, error_code FROM turns ORDER BY arrival_no",
            &["status", "error_code"],
        )
    }
}

fn well(id: usize) -> Reply {
    answer(200, &format!(r#"{{"ok":true,"result":{{"message_id":{id}}}}}"#))
}

fn read(request: &OutboundRequest, at: i64) -> Sent {
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    let token = request.url.strip_prefix("https://api.telegram.example/bot").unwrap();
    Sent {
        at,
        token: token.strip_suffix("/sendMessage").unwrap().to_owned(),
        chat_id: body["chat_id"].as_i64().unwrap(),
        text: body["text"].as_str().unwrap().to_owned(),
        parse_mode: body["parse_mode"].as_str().map(str::to_owned),
    }
}
