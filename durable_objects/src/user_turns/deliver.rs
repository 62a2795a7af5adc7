//! Storing an answer, and what goes out through a channel: the answer in its parts or the notice that there is none, and
//! the order to send it.

use std::iter;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;

use domain::ids::OutboxId;
use domain::job::{Job, JobMessage};
use domain::keys::{Aad, DataKey};
use domain::model::{Completion, ModelError, Prompt};
use domain::outbox::SendChannel;
use domain::outbox::template::Template;
use domain::ports::{Checkpoint, Clock, Queue};
use domain::telegram::split;
use domain::time::{Millis, Timestamp};
use domain::turn::FailureCode;
use futures::future::select;
use store::db::DbError;
use store::ledger::channel::Through;
use store::ledger::run::{self, Answer};
use store::outbox::enqueue::Part;

use crate::ports::Ports;
use crate::user_turns::generate::Generation;
use crate::user_turns::prompt::prompt_text;
use crate::user_turns::{UserTurns, message_row};

/// How long an order to send may take; after that the sweep gives it.
const ORDER_PATIENCE: Millis = Millis::from_secs(5);

impl<P: Ports> UserTurns<P> {
    /// Stores the answer, and puts it into the outbox in the same batch if it goes out through a channel. Gives back the
    /// context revision that it made.
    pub(super) async fn persist(
        &self,
        work: &Generation,
        prompt: &Prompt,
        completion: &Completion,
        generated_at: Timestamp,
    ) -> Result<i64, DbError> {
        let (run, key) = (&work.run, &work.key);
        let row = message_row(&run.turn_id, false);
        let aad = Aad {
            table: "messages",
            row: &row,
            column: "content_sealed",
        };
        let text = completion.text.as_bytes();
        let through = work.started.through.as_ref();
        let parts = through.map(|through| self.parts(through, &completion.text, key, generated_at));
        let answer = Answer {
            content_key: key.id(),
            content_sealed: key
                .seal(&aad, text, self.ports.entropy())
                .map_err(|_| DbError::Defect)?,
            prompt_hash: key.content_hash(prompt_text(prompt).as_bytes()),
            response_hash: key.content_hash(text),
            provider: completion.provider,
            model: &completion.model,
            usage: &completion.usage,
            generated_at,
            parts: parts.as_deref(),
        };
        let resolve = |rows: &[domain::sql::Rows]| {
            rows.first()
                .and_then(|rows| rows.first())
                .map(|row| row.integer("context_revision_write"))
                .transpose()
        };
        loop {
            let now = self.ports.clock().now();
            let batch = run::persist(run, work.epoch, &answer, now);
            let read_back = vec![run::stored_by_run(run)];
            let db = self.db(Rc::clone(&work.costs));
            match db
                .write(self.shard(), batch, run::revision_written, read_back, resolve)
                .await
            {
                // The answer exists only here: keep trying for as long as the line is ours.
                Err(DbError::Unavailable | DbError::Overloaded) if now < run.until => {
                    self.ports.clock().sleep(Millis::new(500)).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// The parts in which `text` goes through a channel, each with an outbox id of its own.
    fn parts(&self, through: &Through, text: &str, key: &DataKey, now: Timestamp) -> Vec<Part> {
        cut(through.channel, text)
            .into_iter()
            .map(|range| Part {
                outbox_id: OutboxId::mint(now, self.ports.entropy()),
                content_hash: key.content_hash(text.get(range.clone()).unwrap_or_default().as_bytes()),
                from: range.start,
                to: range.end,
            })
            .collect()
    }

    /// Orders that what is due of the turn's gateway is sent. Losing the order is harmless: the sweep gives it again.
    pub(super) async fn order_sends(&self, through: Option<&Through>, epoch: i64) {
        let Some(Through { gateway_id, .. }) = through else {
            return;
        };
        let gateway_id = gateway_id.clone();
        let body = JobMessage::new(epoch, Job::Deliver { gateway_id }).encode();
        let sent = pin!(self.ports.sends().send(body, Millis::ZERO));
        // The user's next turn waits behind this.
        let patience = pin!(self.ports.clock().sleep(ORDER_PATIENCE));
        let _ = select(sent, patience).await;
        self.ports.checkpoint().reach("outbox_enqueued").await;
    }
}

/// The text by which a person hears that their channel's message has no answer; `None` for a turn that came through no
/// channel, and for a person whose data is gone.
pub(super) fn notice(through: Option<&Through>, code: FailureCode) -> Option<Template> {
    let wanted = through.is_some() && code != FailureCode::SubjectDeleted;
    wanted.then_some(Template::TurnFailed)
}

/// The same completion, unless a channel could make nothing of it.
pub(super) fn sendable(through: Option<&Through>, completion: Completion) -> Result<Completion, ModelError> {
    match through {
        Some(through) if cut(through.channel, &completion.text).is_empty() => Err(ModelError::Malformed),
        Some(_) | None => Ok(completion),
    }
}

/// The parts of a message, as ranges of its bytes; none when there is nothing to see in it.
fn cut(channel: SendChannel, text: &str) -> Vec<Range<usize>> {
    match channel {
        SendChannel::Telegram => split::parts(text),
        SendChannel::Imessage | SendChannel::WebPush | SendChannel::Expo => iter::once(0..text.len()).collect(),
    }
}
