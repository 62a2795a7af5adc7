//! What becomes of a row and of its attempt, in the names and numbers that the statements of a settling read.

use domain::ids::OutboxId;
use domain::outbox::outcome::{ErrorClass, ErrorCode, Holds, Outcome};
use domain::outbox::policy::{HOLD_MAX, HOLD_UNSTATED_MAX};
use domain::outbox::settlement::{Change, Settlement};
use domain::time::{Millis, Timestamp};
use domain::turn::EventType;
use serde::Serialize;

/// One attempt as the statements read it, out of a JSON list.
#[derive(Serialize, Default)]
pub(super) struct Item<'a> {
    pub(super) id: &'a str,
    pub(super) event: &'a str,
    /// Of the attempt.
    pub(super) outcome: &'a str,
    pub(super) http: Option<u16>,
    pub(super) provider_id: Option<&'a str>,
    pub(super) retry_after: Option<i64>,
    pub(super) attempt_class: Option<&'a str>,
    pub(super) attempt_code: Option<&'a str>,
    /// Of the row.
    pub(super) status: &'a str,
    pub(super) at: Option<i64>,
    pub(super) class: Option<&'a str>,
    pub(super) code: Option<&'a str>,
    pub(super) uncharged: u8,
    pub(super) ambiguous: u8,
    pub(super) plain: u8,
    pub(super) moved: u8,
    /// How long nothing else goes: to the destination, or of the gateway.
    pub(super) lane_until: Option<i64>,
    pub(super) gateway_until: Option<i64>,
    pub(super) broken: u8,
    pub(super) disable: u8,
}

impl<'a> Item<'a> {
    pub(super) fn new(
        id: &'a OutboxId,
        http: Option<u16>,
        outcome: &'a Outcome,
        settlement: &'a Settlement,
        now: Timestamp,
    ) -> Self {
        let mut item = Self {
            id: id.as_str(),
            http,
            ..Self::default()
        };
        item.set_attempt(outcome);
        item.set_row(settlement, now);
        item
    }

    /// How the attempt itself ended.
    fn set_attempt(&mut self, outcome: &'a Outcome) {
        (self.outcome, self.provider_id) = attempt_outcome(outcome);
        let error = match outcome {
            Outcome::Accepted { .. } | Outcome::NotStarted => None,
            Outcome::Retry { class, code, after, .. } => {
                self.retry_after = after.map(Millis::get);
                Some((*class, *code))
            }
            Outcome::Unformatted => Some((ErrorClass::Content, ErrorCode::BadFormatting)),
            Outcome::Moved { .. } => Some((ErrorClass::Destination, ErrorCode::Moved)),
            Outcome::Unauthorized => Some((ErrorClass::Credential, ErrorCode::Unauthorized)),
            Outcome::Gone { code } => Some((ErrorClass::Destination, *code)),
            Outcome::Rejected { class, code } | Outcome::Ambiguous { class, code } => Some((*class, *code)),
        };
        self.attempt_class = error.map(|(class, _)| class.as_str());
        self.attempt_code = error.map(|(_, code)| code.as_str());
    }

    /// What becomes of the row.
    fn set_row(&mut self, settlement: &'a Settlement, now: Timestamp) {
        self.status = "retry";
        self.event = EventType::SendRetryScheduled.as_str();
        match settlement {
            Settlement::Accepted { .. } => {
                self.status = "provider_accepted";
                self.event = EventType::ProviderAccepted.as_str();
            }
            Settlement::Again {
                at,
                class,
                code,
                ambiguous,
                retry_after,
                holds,
                change,
            } => {
                self.at = Some(at.as_millis());
                self.set_error(*class, *code);
                self.ambiguous = u8::from(*ambiguous);
                self.plain = u8::from(matches!(change, Change::Plain));
                self.moved = u8::from(matches!(change, Change::Destination(_)));
                let unstated = (*at).min(now.plus(HOLD_UNSTATED_MAX));
                let until = retry_after
                    .map_or(unstated, |after| now.plus(after))
                    .min(now.plus(HOLD_MAX));
                match holds {
                    Holds::Row => {}
                    Holds::Lane => self.lane_until = Some(until.as_millis()),
                    Holds::Gateway => self.gateway_until = Some(until.as_millis()),
                }
            }
            Settlement::Released => self.uncharged = 1,
            Settlement::GatewayBroken => {
                self.uncharged = 1;
                self.broken = 1;
                self.set_error(ErrorClass::Credential, ErrorCode::Unauthorized);
            }
            Settlement::Failed {
                class,
                code,
                ambiguous,
                disable_address,
            } => {
                self.status = "failed";
                self.event = EventType::DeliveryTerminalFailure.as_str();
                self.set_error(*class, *code);
                self.ambiguous = u8::from(*ambiguous);
                self.disable = u8::from(*disable_address);
            }
        }
    }

    fn set_error(&mut self, class: ErrorClass, code: ErrorCode) {
        self.class = Some(class.as_str());
        self.code = Some(code.as_str());
    }
}

/// How an attempt that came to this is stored: its outcome and the provider's id of the message.
pub(super) const fn attempt_outcome(outcome: &Outcome) -> (&'static str, Option<&str>) {
    match outcome {
        Outcome::Accepted { provider_message_id } => ("accepted", Some(provider_message_id.as_str())),
        Outcome::Retry { .. } | Outcome::Unformatted | Outcome::Moved { .. } | Outcome::Unauthorized => ("retry", None),
        Outcome::Gone { .. } => ("gone", None),
        Outcome::Rejected { .. } => ("rejected", None),
        Outcome::Ambiguous { .. } => ("ambiguous", None),
        Outcome::NotStarted => ("not_started", None),
    }
}
