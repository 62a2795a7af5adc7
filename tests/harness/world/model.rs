//! The language model of a world: answers with what it was asked, and keeps a record of every call.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use domain::model::{Completion, Halt, ModelError, Prompt, Role, Usage};
use domain::time::Millis;
use objects::model::Model;

use crate::executor::{Executor, unwind};
use crate::world::plan::ModelRates;

/// One call of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// For whom the object called it.
    pub user: usize,
    pub question: String,
    /// What came before the question, each with whether the user said it.
    pub history: Vec<(bool, String)>,
    /// The step of the world at which it began.
    pub step: u64,
}

/// The record of a world's calls. Clones are the same.
#[derive(Clone)]
pub struct Calls {
    executor: Executor,
    rates: Rc<RefCell<ModelRates>>,
    /// Out of 1,000 calls, how many panic.
    panics: Rc<Cell<u32>>,
    calls: Rc<RefCell<Vec<Call>>>,
}

impl Calls {
    pub fn new(executor: Executor, rates: ModelRates, panics: Rc<Cell<u32>>) -> Self {
        Self {
            executor,
            rates: Rc::new(RefCell::new(rates)),
            panics,
            calls: Rc::default(),
        }
    }

    /// From now on every call is answered quickly.
    pub fn heal(&self) {
        *self.rates.borrow_mut() = ModelRates::default();
    }

    pub fn all(&self) -> Vec<Call> {
        self.calls.borrow().clone()
    }

    /// For whom the model was called that time, counted from 1.
    pub fn user(&self, number: usize) -> Option<usize> {
        Some(self.calls.borrow().get(number.checked_sub(1)?)?.user)
    }

    /// The model as the object of `user` calls it.
    pub fn of(&self, user: usize) -> SimModel {
        SimModel {
            calls: self.clone(),
            user,
        }
    }
}

/// What a call will do.
enum Manner {
    Answer { millis: i64 },
    Stall,
    Fail,
    BreakOff,
}

/// A question with this in it gets an answer that no single message of a channel holds.
pub const AT_LENGTH: &str = "at length";

fn answer(number: usize, question: &str) -> String {
    let mut text = format!("call {number} answers [{question}]");
    if question.contains(AT_LENGTH) {
        let mark = question.split_inclusive('>').next().unwrap_or_default();
        for line in 0..160 + 60 * (number % 4) {
            text.push_str(&format!("\nline {line} of call {number} for {mark}."));
        }
    }
    text
}

pub struct SimModel {
    calls: Calls,
    user: usize,
}

impl SimModel {
    fn manner(&self) -> Manner {
        let rng = self.calls.executor.rng();
        let rates = *self.calls.rates.borrow();
        if rng.chance(rates.stall) {
            Manner::Stall
        } else if rng.chance(rates.fail) {
            Manner::Fail
        } else if rng.chance(rates.break_off) {
            Manner::BreakOff
        } else if rng.chance(rates.slow) {
            Manner::Answer {
                millis: rng.between(1_000, 50_000),
            }
        } else {
            Manner::Answer {
                millis: rng.between(0, 800),
            }
        }
    }

    fn record(&self, prompt: &Prompt) -> (usize, String) {
        let mut messages = prompt
            .messages
            .iter()
            .map(|one| (one.role == Role::User, one.text.clone()));
        let (_, question) = messages.next_back().unwrap_or_default();
        let call = Call {
            user: self.user,
            question: question.clone(),
            history: messages.collect(),
            step: self.calls.executor.steps(),
        };
        self.calls.calls.borrow_mut().push(call);
        (self.calls.calls.borrow().len(), question)
    }
}

impl Model for SimModel {
    async fn generate(
        &self,
        prompt: &Prompt,
        timeout: Millis,
        on_delta: &mut impl AsyncFnMut(&str) -> Result<(), Halt>,
    ) -> Result<Completion, ModelError> {
        let executor = self.calls.executor.clone();
        let (number, question) = self.record(prompt);
        let manner = self.manner();
        if executor.rng().chance(self.calls.panics.get()) {
            unwind();
        }
        let millis = match manner {
            Manner::Answer { millis } => millis,
            Manner::Stall => timeout.get() * 10,
            Manner::Fail => return Err(ModelError::Unavailable),
            Manner::BreakOff => executor.rng().between(0, 2_000),
        };
        // No two calls give the same answer, so an answer tells which call it came from.
        let text = answer(number, &question);
        let pieces: Vec<&str> = if text.len() > 1_000 {
            vec![&text]
        } else {
            text.split_inclusive(' ').collect()
        };
        let pause = millis / pieces.len() as i64;
        for (at, piece) in pieces.iter().enumerate() {
            executor.sleep(pause).await;
            if matches!(manner, Manner::BreakOff) && at == pieces.len() / 2 {
                return Err(ModelError::Unavailable);
            }
            on_delta(piece).await?;
        }
        let usage = Usage {
            input_tokens: prompt.messages.len() as u32,
            output_tokens: 5,
            cost_microunits: 7,
        };
        Ok(Completion {
            text,
            usage,
            provider: "scripted",
            model: "simulated".to_owned(),
        })
    }
}
