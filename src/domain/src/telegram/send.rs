//! One `sendMessage`.

use serde_json::{Map, Value, json};
use url::Url;

use crate::names::named;
use crate::ports::{Method, OutboundRequest};
use crate::time::Millis;
use serde::{Deserialize, Serialize};

named! {
    /// How Telegram is told to read the formatting of a text.
    ParseMode {
        Markdown = "Markdown",
        MarkdownV2 = "MarkdownV2",
        Html = "HTML",
    }
}

/// Where the Bot API is and what is asked of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Api {
    pub base: Url,
    /// Covers one send as a whole.
    pub deadline: Millis,
    /// `None`: texts are sent as they are.
    pub parse_mode: Option<ParseMode>,
}

/// What is sent, and to whom. Not printable: it holds words, an address and a credential.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    /// The bot's token.
    pub token: &'a str,
    pub chat_id: &'a str,
    pub text: &'a str,
    /// Without formatting, whatever the configuration says.
    pub plain: bool,
}

/// The request that sends `message`.
pub fn request(api: &Api, message: &Message<'_>) -> OutboundRequest {
    let mut body = Map::new();
    // Telegram takes numbers as text too; a number is what a chat's id is.
    let chat_id = message
        .chat_id
        .parse::<i64>()
        .map_or_else(|_| json!(message.chat_id), |id| json!(id));
    body.insert("chat_id".to_owned(), chat_id);
    body.insert("text".to_owned(), json!(message.text));
    body.insert("link_preview_options".to_owned(), json!({"is_disabled": true}));
    if let Some(mode) = api.parse_mode.filter(|_| !message.plain) {
        body.insert("parse_mode".to_owned(), json!(mode.as_str()));
    }
    let base = api.base.as_str().trim_end_matches('/');
    OutboundRequest {
        method: Method::Post,
        url: format!("{base}/bot{}/sendMessage", path_segment(message.token)),
        headers: vec![("content-type", "application/json".to_owned())],
        body: Value::Object(body).to_string().into_bytes(),
        timeout: api.deadline,
    }
}

/// `token` as a part of a path that it cannot leave: a credential with a slash or a question mark in it addresses a bot
/// that does not exist instead of another method.
fn path_segment(token: &str) -> String {
    let mut segment = String::with_capacity(token.len());
    for byte in token.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'-' | b'_') {
            segment.push(char::from(byte));
        } else {
            segment.push_str(&format!("%{byte:02X}"));
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(base: &str, parse_mode: Option<ParseMode>) -> Api {
        Api {
            base: Url::parse(base).unwrap(),
            deadline: Millis::from_secs(10),
            parse_mode,
        }
    }

    fn message<'a>(token: &'a str, chat_id: &'a str, plain: bool) -> Message<'a> {
        Message {
            token,
            chat_id,
            text: "Hi *there*",
            plain,
        }
    }

    fn body(request: &OutboundRequest) -> Value {
        serde_json::from_slice(&request.body).unwrap()
    }

    #[test]
    fn a_message_is_one_post() {
        let sent = request(
            &api("https://api.telegram.org", None),
            &message("11:synthetic_A-b", "8040940969", false),
        );
        assert_eq!(sent.method, Method::Post);
        assert_eq!(sent.url, "https://api.telegram.org/bot11:synthetic_A-b/sendMessage");
        assert_eq!(sent.headers, [("content-type", "application/json".to_owned())]);
        assert_eq!(sent.timeout, Millis::from_secs(10));
        let wanted = json!({
            "chat_id": 8_040_940_969_i64, "text": "Hi *there*", "link_preview_options": {"is_disabled": true}
        });
        assert_eq!(body(&sent), wanted);
    }

    #[test]
    fn formatting_is_read_unless_it_goes_plain() {
        let api = api("https://api.telegram.org/", Some(ParseMode::MarkdownV2));
        assert_eq!(
            body(&request(&api, &message("1:t", "5", false)))["parse_mode"],
            "MarkdownV2"
        );
        assert_eq!(body(&request(&api, &message("1:t", "5", true))).get("parse_mode"), None);
    }

    #[test]
    fn groups_and_names_are_addressed_too() {
        let api = api("http://127.0.0.1:9/telegram/", None);
        let sent = request(&api, &message("1:t", "-1001557912345", false));
        assert_eq!(sent.url, "http://127.0.0.1:9/telegram/bot1:t/sendMessage");
        assert_eq!(body(&sent)["chat_id"], -1_001_557_912_345_i64);
        assert_eq!(
            body(&request(&api, &message("1:t", "@family", false)))["chat_id"],
            "@family"
        );
    }

    #[test]
    fn a_token_cannot_choose_another_path() {
        let sent = request(
            &api("https://api.telegram.org", None),
            &message("1:t/../x?y#é", "5", false),
        );
        assert_eq!(
            sent.url,
            "https://api.telegram.org/bot1:t%2F%2E%2E%2Fx%3Fy%23%C3%A9/sendMessage"
        );
    }
}
