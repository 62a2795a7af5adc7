//! What outside senders say: the bodies of `/internal/outbox/…`, checked whole before anything is done with them.

use serde_json::Value;

use crate::http::bodies::Members;
use crate::ids::LeaseToken;
use crate::outbox::SendChannel;
use crate::outbox::outcome::{ErrorClass, ErrorCode, Holds, Outcome};
use crate::outbox::policy::WAVE_MAX;
use crate::problem::{Code, Problem};
use crate::time::Millis;

/// The longest id of a message at its provider, in bytes.
pub const PROVIDER_ID_MAX: usize = 128;

const LEASE: &str = "lease_token must be the token that the claim gave.";

fn invalid(detail: &'static str) -> Problem {
    Problem::new(Code::InvalidBody).with_detail(detail)
}

fn lease(members: &mut Members) -> Result<LeaseToken, Problem> {
    LeaseToken::parse(&members.text("lease_token", LEASE)?).map_err(|_| invalid(LEASE))
}

/// Takes out a whole number that may be missing.
fn number(members: &mut Members, name: &str, detail: &'static str) -> Result<Option<u64>, Problem> {
    match members.take(name) {
        None => Ok(None),
        Some(Value::Number(number)) => number.as_u64().map(Some).ok_or(invalid(detail)),
        Some(Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_)) => {
            Err(invalid(detail))
        }
    }
}

/// The body of `POST /internal/outbox/claim`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimBody {
    pub channel: SendChannel,
    /// 1 to [`WAVE_MAX`], which is also what it is when nothing is said.
    pub limit: u32,
}

impl ClaimBody {
    pub fn parse(text: &str) -> Result<Self, Problem> {
        const CHANNEL: &str = "channel must be the name of a channel that messages are sent through.";
        const LIMIT: &str = "limit must be a whole number from 1 to 6.";
        let mut members = Members::parse(text)?;
        let channel = SendChannel::parse(&members.text("channel", CHANNEL)?).ok_or(invalid(CHANNEL))?;
        let limit = match number(&mut members, "limit", LIMIT)? {
            None => WAVE_MAX,
            Some(limit) => u32::try_from(limit)
                .ok()
                .filter(|limit| (1..=WAVE_MAX).contains(limit))
                .ok_or(invalid(LIMIT))?,
        };
        members.finish()?;
        Ok(Self { channel, limit })
    }
}

/// The body of `POST /internal/outbox/{outbox_id}/attempt`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptBody {
    pub lease_token: LeaseToken,
}

impl AttemptBody {
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let mut members = Members::parse(text)?;
        let lease_token = lease(&mut members)?;
        members.finish()?;
        Ok(Self { lease_token })
    }
}

/// The body of `POST /internal/outbox/{outbox_id}/confirm` or `/fail`: what came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutcomeBody {
    pub lease_token: LeaseToken,
    pub outcome: Outcome,
}

impl OutcomeBody {
    /// Of `/confirm`: the provider took it.
    pub fn parse_confirm(text: &str) -> Result<Self, Problem> {
        const ID: &str = "provider_message_id must be 1 to 128 visible ASCII characters.";
        let mut members = Members::parse(text)?;
        let lease_token = lease(&mut members)?;
        let id = members.text("provider_message_id", ID)?;
        members.finish()?;
        if id.is_empty() || id.len() > PROVIDER_ID_MAX || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(invalid(ID));
        }
        let outcome = Outcome::Accepted {
            provider_message_id: id,
        };
        Ok(Self { lease_token, outcome })
    }

    /// Of `/fail`: it did not, or nobody knows. A provider that wants fewer messages holds the whole gateway.
    pub fn parse_fail(text: &str) -> Result<Self, Problem> {
        const OUTCOME: &str = "outcome must be retry, gone, rejected or ambiguous.";
        const AFTER: &str = "retry_after_seconds must be a whole number of seconds, and stands with retry only.";
        const CLASS: &str = "error_class must be a class of the description.";
        const CODE: &str = "error_code must be a code of the description.";
        let mut members = Members::parse(text)?;
        let lease_token = lease(&mut members)?;
        let name = members.text("outcome", OUTCOME)?;
        let seconds = number(&mut members, "retry_after_seconds", AFTER)?;
        let class = members
            .optional_text("error_class", CLASS)?
            .map(|text| {
                let class = ErrorClass::parse(&text).filter(|class| !class.is_own());
                class.ok_or(invalid(CLASS))
            })
            .transpose()?;
        let code = members
            .optional_text("error_code", CODE)?
            .map(|text| {
                let code = ErrorCode::parse(&text).filter(|code| !code.is_own());
                code.ok_or(invalid(CODE))
            })
            .transpose()?
            .unwrap_or(ErrorCode::Other);
        members.finish()?;
        let after = seconds.map(|seconds| Millis::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX)));
        if after.is_some() && name != "retry" {
            return Err(invalid(AFTER));
        }
        let outcome = match name.as_str() {
            "retry" => Outcome::Retry {
                class: class.unwrap_or(ErrorClass::Provider),
                code,
                after,
                holds: if class == Some(ErrorClass::RateLimit) {
                    Holds::Gateway
                } else {
                    Holds::Row
                },
            },
            "gone" => Outcome::Gone { code },
            "rejected" => Outcome::Rejected {
                class: class.unwrap_or(ErrorClass::Content),
                code,
            },
            // Only what is known to have been cut off may be tried more often than a silence; a sender that says no
            // more than this counts as silent.
            "ambiguous" => Outcome::Ambiguous {
                class: class.unwrap_or(ErrorClass::Timeout),
                code,
            },
            _ => return Err(invalid(OUTCOME)),
        };
        Ok(Self { lease_token, outcome })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail<T>(result: Result<T, Problem>) -> Option<String> {
        result
            .err()
            .map(|problem| problem.detail.map_or_else(String::new, |text| text.into_owned()))
    }

    #[test]
    fn a_claim_names_a_channel_and_perhaps_a_limit() {
        let six = ClaimBody {
            channel: SendChannel::Imessage,
            limit: 6,
        };
        assert_eq!(ClaimBody::parse(r#"{"channel":"imessage"}"#), Ok(six));
        assert_eq!(ClaimBody::parse(r#"{"channel":"imessage","limit":6}"#), Ok(six));
        for body in [
            r#"{}"#,
            r#"{"channel":"pigeon"}"#,
            r#"{"channel":"imessage","limit":0}"#,
            r#"{"channel":"imessage","limit":7}"#,
            r#"{"channel":"imessage","limit":1.5}"#,
            r#"{"channel":"imessage","limit":"1"}"#,
            r#"{"channel":"imessage","gateway_id":"gateway_00other"}"#,
        ] {
            assert!(detail(ClaimBody::parse(body)).is_some(), "{body}");
        }
    }

    #[test]
    fn an_attempt_names_its_lease_and_nothing_else() {
        assert!(AttemptBody::parse(r#"{"lease_token":"lease_00a"}"#).is_ok());
        for body in [
            r#"{}"#,
            r#"{"lease_token":"out_00a"}"#,
            r#"{"lease_token":"lease_00a","x":1}"#,
        ] {
            assert!(AttemptBody::parse(body).is_err(), "{body}");
        }
    }

    #[test]
    fn every_outcome_is_said_in_one_way() {
        let fail = |rest: &str| OutcomeBody::parse_fail(&format!(r#"{{"lease_token":"lease_00a",{rest}}}"#));
        let said = |rest: &str| format!("{:?}", fail(rest).unwrap().outcome);
        assert_eq!(
            said(r#""outcome":"retry""#),
            "Retry { class: Provider, code: Other, after: None, holds: Row }"
        );
        assert_eq!(
            said(
                r#""outcome":"retry","retry_after_seconds":7,"error_class":"rate_limit","error_code":"too_many_requests""#
            ),
            "Retry { class: RateLimit, code: TooManyRequests, after: Some(Millis(7000)), holds: Gateway }"
        );
        assert_eq!(said(r#""outcome":"gone","error_code":"blocked""#), "Gone(Blocked)");
        assert_eq!(said(r#""outcome":"rejected""#), "Rejected(Content, Other)");
        assert_eq!(said(r#""outcome":"ambiguous""#), "Ambiguous(Timeout, Other)");
        for rest in [
            r#""outcome":"accepted""#,
            r#""outcome":"gone","retry_after_seconds":7"#,
            r#""outcome":"retry","retry_after_seconds":-7"#,
            r#""outcome":"retry","retry_after_seconds":"7""#,
            r#""outcome":"retry","error_class":"bad_luck""#,
            r#""outcome":"retry","error_code":"bad_luck""#,
            r#""outcome":"retry","words":"hello""#,
        ] {
            assert!(fail(rest).is_err(), "{rest}");
        }
        let long = fail(r#""outcome":"retry","retry_after_seconds":18446744073709551615"#)
            .unwrap()
            .outcome;
        assert!(matches!(long, Outcome::Retry { after: Some(after), .. } if after.get() > 0));
    }

    #[test]
    fn a_sender_outside_cannot_report_what_only_the_service_itself_decides() {
        let fail = |rest: String| {
            OutcomeBody::parse_fail(&format!(r#"{{"lease_token":"lease_00a","outcome":"rejected",{rest}}}"#))
        };
        for code in ErrorCode::ALL {
            let taken = fail(format!(r#""error_code":"{}""#, code.as_str())).is_ok();
            assert_eq!(taken, !code.is_own(), "{code:?}");
        }
        for class in ErrorClass::ALL {
            let taken = fail(format!(r#""error_class":"{}""#, class.as_str())).is_ok();
            assert_eq!(taken, !class.is_own(), "{class:?}");
        }
        for code in [
            ErrorCode::LeaseLost,
            ErrorCode::AuthorizationChanged,
            ErrorCode::Expired,
        ] {
            assert!(code.is_own(), "{code:?}");
        }
    }

    #[test]
    fn a_confirmation_tells_the_providers_id() {
        let confirm = |id: &str| {
            OutcomeBody::parse_confirm(&format!(
                r#"{{"lease_token":"lease_00a","provider_message_id":"{id}"}}"#
            ))
        };
        let expected = Outcome::Accepted {
            provider_message_id: "4321".to_owned(),
        };
        assert_eq!(confirm("4321").unwrap().outcome, expected);
        assert!(confirm(&"x".repeat(128)).is_ok());
        for id in ["", "a b", "é", &"x".repeat(129)] {
            assert!(confirm(id).is_err(), "{id}");
        }
        assert!(OutcomeBody::parse_confirm(r#"{"lease_token":"lease_00a"}"#).is_err());
    }
}
