//! The alarm of a Durable Object.

use std::rc::Rc;

use domain::ports::Alarm;
use domain::time::Timestamp;
use worker::{ScheduledTime, js_sys};

use super::log;

#[derive(Clone)]
pub struct ObjectAlarm(Rc<worker::durable::State>);

impl ObjectAlarm {
    pub fn new(state: Rc<worker::durable::State>) -> Self {
        Self(state)
    }
}

impl Alarm for ObjectAlarm {
    #[allow(
        clippy::cast_precision_loss,
        reason = "timestamps are clamped to the integers a double holds"
    )]
    async fn set(&self, at: Timestamp) {
        let date = js_sys::Date::new(&js_sys::Number::from(at.as_millis() as f64));
        // An alarm that was not set is made up for by the sweep.
        if self.0.storage().set_alarm(ScheduledTime::new(date)).await.is_err() {
            log::fault("alarm_not_set", "the object's storage did not take it");
        }
    }
}
