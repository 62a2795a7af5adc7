//! What goes wrong around a message, by chance.

use serde_json::json;

use super::replies::{FOR_EVER, broken};
use super::{Outage, Telegram, Verdict};
use crate::http::{Piece, Reply};

impl Telegram {
    /// What goes wrong before anything is taken.
    pub(super) fn accident(&self) -> Option<(Verdict, Reply)> {
        let (rng, rates) = (self.0.executor.rng(), self.0.rates.get());
        let reply = if rng.chance(rates.fault) {
            broken(Outage::Faulty)
        } else if rng.chance(rates.stall) {
            broken(Outage::Silent)
        } else if rng.chance(rates.reset) {
            broken(Outage::Unreachable)
        } else if rng.chance(rates.garbage / 2) {
            Reply::ok("<html>welcome</html>")
        } else {
            return None;
        };
        Some((Verdict::Nothing, reply))
    }

    /// The message was taken; what is heard of that.
    pub(super) fn answer(&self, message_id: i64, chat: &str, text: &str) -> Reply {
        let (rng, rates) = (self.0.executor.rng(), self.0.rates.get());
        let shown: String = text.chars().take(8).collect();
        let chat: i64 = chat.parse().unwrap_or_default();
        let result =
            json!({"message_id": message_id, "date": 1, "chat": {"id": chat, "type": "private"}, "text": shown});
        let body = json!({"ok": true, "result": result}).to_string().into_bytes();
        let whole = Reply::ok(body.clone());
        if rng.chance(rates.stall_taken) {
            Reply {
                head_after: FOR_EVER,
                ..whole
            }
        } else if rng.chance(rates.answer_lost) {
            let half = vec![(0, Piece::Bytes(body[..body.len() / 2].to_vec())), (0, Piece::Break)];
            Reply {
                status: rng.chance(500).then_some(200),
                body: half,
                ..whole
            }
        } else if rng.chance(rates.garbage / 2) {
            Reply::ok("<html>welcome</html>")
        } else {
            whole
        }
    }
}
