//! What a desk's object is built on: a clock that moves when someone sleeps, tasks that wait to be run, a model that
//! does as it is told.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use domain::model::{Completion, Halt, ModelError, Prompt, Usage};
use domain::ports::{Alarm, Checkpoint, Clock, LocalFuture, Queue, QueueError, Spawn};
use domain::time::{Millis, Timestamp};
use harness::rng::Rng;
use harness::sqlite::TestSql;
use objects::model::Model;
use objects::ports::Ports;

/// A clock that stands still unless it is told to move; whoever sleeps moves it.
#[derive(Clone)]
pub struct DeskClock(pub Rc<Cell<Timestamp>>);

impl Clock for DeskClock {
    fn now(&self) -> Timestamp {
        self.0.get()
    }
    async fn sleep(&self, duration: Millis) {
        self.0.set(self.0.get().plus(duration));
    }
}

#[derive(Clone, Default)]
pub struct Tasks(pub Rc<RefCell<Vec<LocalFuture<()>>>>);

impl Spawn for Tasks {
    fn spawn(&self, task: LocalFuture<()>) {
        self.0.borrow_mut().push(task);
    }
}

/// Keeps when it was set to ring; it rings only when the story says so.
#[derive(Clone, Default)]
pub struct DeskAlarm(Rc<RefCell<Vec<Timestamp>>>);

impl DeskAlarm {
    /// Every time it was set to, in order.
    pub fn times(&self) -> Vec<Timestamp> {
        self.0.borrow().clone()
    }
}

impl Alarm for DeskAlarm {
    async fn set(&self, at: Timestamp) {
        self.0.borrow_mut().push(at);
    }
}

/// Panics or stands still for ever the next time a place of this name is reached.
#[derive(Clone, Default)]
pub struct PanicAt(Rc<Cell<Option<&'static str>>>, Rc<Cell<Option<&'static str>>>);

impl PanicAt {
    pub fn next(&self, name: &'static str) {
        self.0.set(Some(name));
    }

    pub fn stop_next(&self, name: &'static str) {
        self.1.set(Some(name));
    }
}

impl Checkpoint for PanicAt {
    async fn reach(&self, name: &'static str) {
        if self.0.get() == Some(name) {
            self.0.set(None);
            panic!("provoked at {name}");
        }
        if self.1.get() == Some(name) {
            self.1.set(None);
            std::future::pending::<()>().await;
        }
    }
}

/// What the model does when it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    Well,
    /// With these words.
    With(&'static str),
    Fails(ModelError),
    /// Panics, and then answers well.
    PanicsOnce,
}

#[derive(Clone)]
pub struct DeskModel {
    pub answers: Rc<Cell<Answers>>,
    pub calls: Rc<Cell<u32>>,
}

impl Model for DeskModel {
    async fn generate(
        &self,
        prompt: &Prompt,
        _timeout: Millis,
        on_delta: &mut impl AsyncFnMut(&str) -> Result<(), Halt>,
    ) -> Result<Completion, ModelError> {
        self.calls.set(self.calls.get() + 1);
        match self.answers.get() {
            Answers::Well => {
                let text = format!("answer to {}", prompt.question().unwrap().text);
                on_delta(&text).await?;
                Ok(Completion {
                    text,
                    usage: Usage::default(),
                    provider: "scripted",
                    model: "desk".to_owned(),
                })
            }
            Answers::With(text) => Ok(Completion {
                text: text.to_owned(),
                usage: Usage::default(),
                provider: "scripted",
                model: "desk".to_owned(),
            }),
            Answers::Fails(error) => Err(error),
            Answers::PanicsOnce => {
                self.answers.set(Answers::Well);
                panic!("the model's adapter has a defect")
            }
        }
    }
}

/// Keeps the orders to send, or refuses them.
#[derive(Clone, Default)]
pub struct DeskSends(pub Rc<RefCell<Vec<String>>>, pub Rc<Cell<bool>>);

impl Queue for DeskSends {
    async fn send(&self, body: String, _delay: Millis) -> Result<(), QueueError> {
        if self.1.get() {
            return Err(QueueError);
        }
        self.0.borrow_mut().push(body);
        Ok(())
    }
}

#[derive(Clone)]
pub struct DeskPorts {
    pub sql: TestSql,
    pub clock: DeskClock,
    pub entropy: Rng,
    pub tasks: Tasks,
    pub model: DeskModel,
    pub panic_at: PanicAt,
    pub alarm: DeskAlarm,
    pub sends: DeskSends,
}

impl Ports for DeskPorts {
    type Sql = TestSql;
    type Clock = DeskClock;
    type Entropy = Rng;
    type Spawn = Tasks;
    type Alarm = DeskAlarm;
    type Checkpoint = PanicAt;
    type Model = DeskModel;
    type Queue = DeskSends;

    fn sql(&self) -> &TestSql {
        &self.sql
    }
    fn clock(&self) -> &DeskClock {
        &self.clock
    }
    fn entropy(&self) -> &Rng {
        &self.entropy
    }
    fn spawn(&self) -> &Tasks {
        &self.tasks
    }
    fn alarm(&self) -> &DeskAlarm {
        &self.alarm
    }
    fn checkpoint(&self) -> &PanicAt {
        &self.panic_at
    }
    fn model(&self) -> &DeskModel {
        &self.model
    }
    fn sends(&self) -> &DeskSends {
        &self.sends
    }
}
