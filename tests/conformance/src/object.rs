//! What a Durable Object does between two awaits, at an alarm and over a restart.

use std::cell::RefCell;

use domain::ports::{Alarm, Clock};
use domain::time::{Millis, Timestamp};
use futures::future::join;
use serde::{Deserialize, Serialize};

use crate::Report;

/// What can be asked of the object under test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Notes `start:name`, waits, and notes `end:name`.
    Work { name: String, millis: i64 },
    /// Sets the alarm.
    Alarm { at: Timestamp },
    /// Nothing but the answer.
    Notes,
}

/// What the object noted so far in this life, with the time of each note.
pub type Notes = Vec<(String, Timestamp)>;

/// The object under test; its shell passes calls and alarms on.
pub struct Specimen<C, A> {
    clock: C,
    alarm: A,
    notes: RefCell<Notes>,
}

impl<C: Clock, A: Alarm> Specimen<C, A> {
    pub fn new(clock: C, alarm: A) -> Self {
        Self {
            clock,
            alarm,
            notes: RefCell::default(),
        }
    }

    fn note(&self, text: String) {
        self.notes.borrow_mut().push((text, self.clock.now()));
    }

    pub async fn ask(&self, ask: Ask) -> Notes {
        match ask {
            Ask::Work { name, millis } => {
                self.note(format!("start:{name}"));
                self.clock.sleep(Millis::new(millis)).await;
                self.note(format!("end:{name}"));
            }
            Ask::Alarm { at } => self.alarm.set(at).await,
            Ask::Notes => {}
        }
        self.notes.borrow().clone()
    }

    pub async fn alarm(&self) {
        self.note("alarm".to_owned());
    }
}

/// Reaches objects by name; each name is an object of its own.
pub trait Objects {
    async fn ask(&self, object: &str, ask: Ask) -> Option<Notes>;
}

fn texts(notes: Option<Notes>) -> Vec<String> {
    notes.unwrap_or_default().into_iter().map(|(text, _)| text).collect()
}

/// `run` must differ from that of earlier runs, so that the objects are new.
pub async fn suite(objects: &impl Objects, clock: &impl Clock, run: &str) -> Report {
    let mut report = Report::default();
    let (first, second) = (format!("first-{run}"), format!("second-{run}"));
    let work = |name: &str, millis| Ask::Work {
        name: name.to_owned(),
        millis,
    };

    let slow = objects.ask(&first, work("a", 300));
    let quick = async {
        clock.sleep(Millis::new(100)).await;
        objects.ask(&first, work("b", 1)).await
    };
    join(slow, quick).await;
    let seen = texts(objects.ask(&first, Ask::Notes).await);
    report.equal(
        "object: another call enters while one waits outside storage",
        seen,
        ["start:a", "start:b", "end:b", "end:a"].map(str::to_owned).to_vec(),
    );
    report.equal(
        "object: names are separate",
        texts(objects.ask(&second, Ask::Notes).await),
        Vec::new(),
    );
    alarms(&mut report, objects, clock, &second).await;
    report
}

async fn alarms(report: &mut Report, objects: &impl Objects, clock: &impl Clock, object: &str) {
    let begun = clock.now();
    objects
        .ask(
            object,
            Ask::Alarm {
                at: begun.plus(Millis::new(600_000)),
            },
        )
        .await;
    objects
        .ask(
            object,
            Ask::Alarm {
                at: begun.plus(Millis::new(500)),
            },
        )
        .await;
    let mut notes = Vec::new();
    while notes.is_empty() && clock.now().since(begun).get() < 90_000 {
        clock.sleep(Millis::new(100)).await;
        notes = objects.ask(object, Ask::Notes).await.unwrap_or_default();
    }
    let fired: Vec<(&str, bool)> = notes
        .iter()
        .map(|(text, at)| (text.as_str(), at.since(begun).get() >= 500))
        .collect();
    report.equal(
        "object: a later alarm replaces the earlier and fires when due",
        fired,
        vec![("alarm", true)],
    );

    objects
        .ask(
            object,
            Ask::Alarm {
                at: begun.minus(Millis::new(1_000)),
            },
        )
        .await;
    let asked = clock.now();
    let mut count = 1;
    while count < 2 && clock.now().since(asked).get() < 90_000 {
        clock.sleep(Millis::new(100)).await;
        count = objects.ask(object, Ask::Notes).await.map_or(0, |notes| notes.len());
    }
    report.equal("object: an alarm in the past fires at once", count, 2);
}

/// Sets an alarm far enough ahead that the test can kill the process before it is due; see [`after_restart`].
pub async fn before_restart(objects: &impl Objects, clock: &impl Clock, object: &str, ahead: Millis) -> Report {
    let mut report = Report::default();
    let noted = objects
        .ask(
            object,
            Ask::Work {
                name: "old life".to_owned(),
                millis: 0,
            },
        )
        .await;
    report.equal("object: notes live in memory", texts(noted).len(), 2);
    let set = objects
        .ask(
            object,
            Ask::Alarm {
                at: clock.now().plus(ahead),
            },
        )
        .await;
    report.that("object: sets an alarm", set.is_some(), set.is_some());
    report
}

/// In a new process: memory is gone, the alarm is not.
pub async fn after_restart(objects: &impl Objects, clock: &impl Clock, object: &str, patience: Millis) -> Report {
    let mut report = Report::default();
    let begun = clock.now();
    let mut seen = texts(objects.ask(object, Ask::Notes).await);
    while seen.is_empty() && clock.now().since(begun) < patience {
        clock.sleep(Millis::new(250)).await;
        seen = texts(objects.ask(object, Ask::Notes).await);
    }
    report.equal(
        "object: memory is lost and the alarm still fires",
        seen,
        vec!["alarm".to_owned()],
    );
    report
}
