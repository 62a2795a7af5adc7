//! The bodies that clients send, checked whole before anything is done with them.

use serde_json::{Map, Value};

use super::json::{self, MalformedJson};
use crate::ids::ConversationId;
use crate::problem::{Code, Problem};
use crate::rfc3339;
use crate::time::Timestamp;
use crate::turn::event::AckType;

/// The longest message, in bytes of UTF-8.
pub const MESSAGE_MAX: usize = 16_000;
/// The longest user or sender id in a body, in bytes.
pub const USER_MAX: usize = 128;
/// The longest language tag (RFC 5646 §4.4.1), in bytes.
pub const LOCALE_MAX: usize = 35;
/// The longest time zone name, in bytes.
pub const TIMEZONE_MAX: usize = 64;

/// A JSON object whose members are taken out one by one. What is left over at the end was not asked for.
#[derive(Debug)]
pub struct Members(Map<String, Value>);

fn invalid(detail: &'static str) -> Problem {
    Problem::new(Code::InvalidBody).with_detail(detail)
}

impl Members {
    /// Reads `text` as one strict JSON object.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        match json::parse(text).map_err(|MalformedJson| Problem::new(Code::MalformedJson))? {
            Value::Object(members) => Ok(Self(members)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Err(invalid("The body must be a JSON object."))
            }
        }
    }

    /// Takes a member out, whatever it is.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    /// Takes out a string; `detail` says what is wanted when it is missing or something else. An explicit `null` is
    /// something else.
    pub fn text(&mut self, name: &str, detail: &'static str) -> Result<String, Problem> {
        self.optional_text(name, detail)?.ok_or(invalid(detail))
    }

    /// Takes out a string that may be missing.
    pub fn optional_text(&mut self, name: &str, detail: &'static str) -> Result<Option<String>, Problem> {
        match self.0.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                Err(invalid(detail))
            }
        }
    }

    /// Refuses members that nobody took.
    pub fn finish(self) -> Result<(), Problem> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(invalid("The body has a member that is not known here."))
        }
    }
}

/// The body of `POST /chat`. Not `Debug`: it holds what a person wrote.
#[derive(Clone, PartialEq, Eq)]
pub struct ChatBody {
    /// 1 to [`MESSAGE_MAX`] bytes, not only white space, as it was sent.
    pub message: String,
    pub conversation_id: Option<ConversationId>,
    /// For a user token its own subject; for a gateway the external id of the sender.
    pub user_id: Option<String>,
    /// A language tag.
    pub locale: Option<String>,
    /// The name of an IANA time zone, by its form.
    pub timezone: Option<String>,
}

impl ChatBody {
    pub fn parse(text: &str) -> Result<Self, Problem> {
        const MESSAGE: &str = "message must be a string of 1 to 16,000 bytes that is not only white space.";
        const CONVERSATION: &str = "conversation_id must be a conversation's id.";
        const USER: &str = "user_id must be a string of 1 to 128 bytes without control characters.";
        const LOCALE: &str = "locale must be a language tag such as en-GB.";
        const TIMEZONE: &str = "timezone must be the name of an IANA time zone such as Europe/Berlin.";
        let mut members = Members::parse(text)?;
        let body = Self {
            message: checked(members.text("message", MESSAGE)?, is_message, MESSAGE)?,
            conversation_id: members
                .optional_text("conversation_id", CONVERSATION)?
                .map(|id| ConversationId::parse(&id).map_err(|_| invalid(CONVERSATION)))
                .transpose()?,
            user_id: checked_option(members.optional_text("user_id", USER)?, is_user, USER)?,
            locale: checked_option(members.optional_text("locale", LOCALE)?, is_locale, LOCALE)?,
            timezone: checked_option(members.optional_text("timezone", TIMEZONE)?, is_timezone, TIMEZONE)?,
        };
        members.finish()?;
        Ok(body)
    }
}

/// The body of `POST /turns/{turn_id}/ack`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckBody {
    pub ack_type: AckType,
    /// By the client's clock: kept, never trusted.
    pub client_timestamp: Timestamp,
}

impl AckBody {
    pub fn parse(text: &str) -> Result<Self, Problem> {
        const TYPE: &str = "ack_type must be rendered or read.";
        const TIME: &str = "client_timestamp must be an RFC 3339 date and time.";
        let mut members = Members::parse(text)?;
        let ack_type = match members.text("ack_type", TYPE)?.as_str() {
            "rendered" => AckType::Rendered,
            "read" => AckType::Read,
            _ => return Err(invalid(TYPE)),
        };
        let client_timestamp = rfc3339::parse(&members.text("client_timestamp", TIME)?).ok_or(invalid(TIME))?;
        members.finish()?;
        Ok(Self {
            ack_type,
            client_timestamp,
        })
    }
}

/// Refuses every body but none and `{}`: for routes where only the credential counts.
pub fn expect_empty(text: &str) -> Result<(), Problem> {
    if text.is_empty() {
        Ok(())
    } else {
        Members::parse(text)?.finish()
    }
}

fn checked(text: String, is: fn(&str) -> bool, detail: &'static str) -> Result<String, Problem> {
    if is(&text) { Ok(text) } else { Err(invalid(detail)) }
}

fn checked_option(text: Option<String>, is: fn(&str) -> bool, detail: &'static str) -> Result<Option<String>, Problem> {
    text.map(|text| checked(text, is, detail)).transpose()
}

fn is_message(text: &str) -> bool {
    text.len() <= MESSAGE_MAX && !text.trim().is_empty()
}

fn is_user(text: &str) -> bool {
    (1..=USER_MAX).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// Whether it is a language tag, by its form only: subtags of 1 to 8 letters and digits, the first of letters.
pub fn is_locale(text: &str) -> bool {
    let subtag = |tag: &str| (1..=8).contains(&tag.len()) && tag.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let language = text.split('-').next().unwrap_or_default();
    text.len() <= LOCALE_MAX
        && language.len() >= 2
        && language.bytes().all(|byte| byte.is_ascii_alphabetic())
        && text.split('-').all(subtag)
}

/// By its form only: up to three parts of at most 14 letters, digits and `_+-` between slashes, as the time zone
/// database names its zones, the first character a letter. The name is kept in the clear, so there is no room for prose.
fn is_timezone(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'+' | b'-');
    text.len() <= TIMEZONE_MAX
        && text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && text.split('/').count() <= 3
        && text
            .split('/')
            .all(|part| (1..=14).contains(&part.len()) && part.bytes().all(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat_problem(text: &str) -> Option<(Code, String)> {
        ChatBody::parse(text)
            .err()
            .map(|problem| (problem.code, problem.detail.unwrap_or_default().into_owned()))
    }

    #[test]
    fn a_whole_chat_body_is_read() {
        let body = ChatBody::parse(
            r#"{"message":" Hi\n","conversation_id":"conv_00abc","user_id":"user_00demo","locale":"de-Latn-CH-1996",
                "timezone":"America/Argentina/Buenos_Aires"}"#,
        )
        .ok()
        .unwrap();
        assert_eq!(body.message, " Hi\n");
        assert_eq!(body.conversation_id.unwrap().as_str(), "conv_00abc");
        assert_eq!(body.user_id.as_deref(), Some("user_00demo"));
        assert_eq!(body.locale.as_deref(), Some("de-Latn-CH-1996"));
        assert_eq!(body.timezone.as_deref(), Some("America/Argentina/Buenos_Aires"));
        assert_eq!(ChatBody::parse(r#"{"message":"Hi"}"#).ok().unwrap().timezone, None);
    }

    #[test]
    fn the_message_is_bounded_in_bytes() {
        let body = |message: &str| serde_json::json!({ "message": message }).to_string();
        assert_eq!(chat_problem(&body(&"é".repeat(8_000))), None);
        for message in [&"x".repeat(16_001), "", " \n\t\u{2003}"] {
            let (code, detail) = chat_problem(&body(message)).unwrap();
            assert_eq!(code, Code::InvalidBody);
            assert!(detail.starts_with("message must"), "{detail}");
        }
    }

    #[test]
    fn wrong_members_are_named() {
        for (body, begins) in [
            ("[]", "The body must be"),
            ("{}", "message must"),
            (r#"{"message":null}"#, "message must"),
            (
                r#"{"message":"x","conversation_id":"turn_00a"}"#,
                "conversation_id must",
            ),
            (r#"{"message":"x","conversation_id":null}"#, "conversation_id must"),
            (r#"{"message":"x","user_id":7}"#, "user_id must"),
            (r#"{"message":"x","user_id":""}"#, "user_id must"),
            (r#"{"message":"x","user_id":"a\u0000"}"#, "user_id must"),
            (r#"{"message":"x","locale":"english"}"#, ""),
            (r#"{"message":"x","locale":"e"}"#, "locale must"),
            (r#"{"message":"x","locale":"en_GB"}"#, "locale must"),
            (r#"{"message":"x","timezone":"../etc/passwd"}"#, "timezone must"),
            (r#"{"message":"x","timezone":"Europe//Berlin"}"#, "timezone must"),
            (r#"{"message":"x","timezone":"My_name_is_a_secret"}"#, "timezone must"),
            (r#"{"message":"x","timezone":"A/B/C/D"}"#, "timezone must"),
            (r#"{"message":"x","timezone":"America/Argentina/ComodRivadavia"}"#, ""),
            (r#"{"message":"x","role":"admin"}"#, "The body has a member"),
        ] {
            match chat_problem(body) {
                Some((code, detail)) => {
                    assert_eq!(code, Code::InvalidBody);
                    assert!(!begins.is_empty() && detail.starts_with(begins), "{body}: {detail}");
                }
                None => assert_eq!(begins, "", "{body}"),
            }
        }
        assert_eq!(
            chat_problem(r#"{"message":"a","message":"b"}"#).unwrap().0,
            Code::MalformedJson
        );
        assert_eq!(chat_problem("{").unwrap().0, Code::MalformedJson);
    }

    #[test]
    fn acknowledgments_are_read() {
        let ack = AckBody::parse(r#"{"ack_type":"read","client_timestamp":"2026-07-11T00:00:00Z"}"#).unwrap();
        assert_eq!(ack.ack_type, AckType::Read);
        assert_eq!(ack.client_timestamp.as_millis(), 1_783_728_000_000);
        for body in [
            r#"{"ack_type":"seen","client_timestamp":"2026-07-11T00:00:00Z"}"#,
            r#"{"ack_type":"read","client_timestamp":"yesterday"}"#,
            r#"{"ack_type":"read","client_timestamp":1783728000}"#,
            r#"{"ack_type":"read"}"#,
            r#"{"ack_type":"read","client_timestamp":"2026-07-11T00:00:00Z","turn_id":"turn_00a"}"#,
        ] {
            assert_eq!(AckBody::parse(body).unwrap_err().code, Code::InvalidBody, "{body}");
        }
    }

    #[test]
    fn an_exchange_takes_no_body_members() {
        assert_eq!(expect_empty(""), Ok(()));
        assert_eq!(expect_empty("{}"), Ok(()));
        assert_eq!(
            expect_empty(r#"{"user_id":"user_00demo"}"#).unwrap_err().code,
            Code::InvalidBody
        );
        assert_eq!(expect_empty(" ").unwrap_err().code, Code::MalformedJson);
    }
}
