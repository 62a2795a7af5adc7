//! How long each step of a message may take before the service's own check says that something is wrong.

use crate::outbox::SendChannel;
use crate::time::Millis;

/// From acceptance to an answer or a failure.
pub const ANSWER_WITHIN: Millis = Millis::from_mins(5);

/// From the model's answer to its being stored.
pub const WRITE_WITHIN: Millis = Millis::from_mins(2);

/// From the time a message may be sent to its being settled.
pub const fn deliver_within(channel: SendChannel) -> Millis {
    match channel {
        SendChannel::Telegram | SendChannel::Imessage => Millis::from_mins(5),
        // A push service may well be slow, and a hint is worth something for an hour.
        SendChannel::WebPush | SendChannel::Expo => Millis::from_mins(15),
    }
}
