//! What the built-in provider answers: a pure function of the prompt.

use super::Prompt;

/// The most pieces that a scripted answer comes in.
const PIECES_MAX: usize = 8;
/// A piece is not split below this many bytes.
const PIECE_BYTES_MIN: usize = 24;

/// The scripted answer: it says that it is one, shows the context it was given and repeats the message.
pub fn answer(prompt: &Prompt) -> String {
    let mut text = "This is a scripted answer: no language model was asked.\n".to_owned();
    for line in &prompt.context {
        text.push_str(&format!("{}: {}\n", line.name, line.value));
    }
    text.push_str(&format!("earlier messages in this session: {}\n", prompt.earlier()));
    text.push_str("you said: ");
    text.push_str(prompt.question().map_or("", |message| message.text.as_str()));
    text
}

/// The text in at most eight pieces, none of which breaks a character.
pub fn pieces(text: &str) -> Vec<&str> {
    let size = text.len().div_ceil(PIECES_MAX).max(PIECE_BYTES_MIN);
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, tail) = rest.split_at(rest.ceil_char_boundary(size));
        pieces.push(piece);
        rest = tail;
    }
    pieces
}

/// Words stand in for tokens: how many the model was given and how many it gave.
pub fn words(prompt: &Prompt, answer: &str) -> (u32, u32) {
    let count = |text: &str| u32::try_from(text.split_whitespace().count()).unwrap_or(u32::MAX);
    let said = prompt.messages.iter().map(|message| count(&message.text));
    let given = said.fold(count(&prompt.system_text()), u32::saturating_add);
    (given, count(answer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ContextLine, Message, Role};

    fn message(role: Role, text: &str) -> Message {
        Message {
            role,
            text: text.to_owned(),
        }
    }

    fn prompt() -> Prompt {
        Prompt {
            system: "Be kind.",
            context: vec![ContextLine {
                name: "session",
                value: "new".to_owned(),
            }],
            messages: vec![
                message(Role::User, "one"),
                message(Role::Assistant, "two three"),
                message(Role::User, "Grüße aus Köln"),
            ],
        }
    }

    #[test]
    fn it_says_what_it_is_and_what_it_was_given() {
        let expected = "This is a scripted answer: no language model was asked.\nsession: new\n\
                        earlier messages in this session: 2\nyou said: Grüße aus Köln";
        assert_eq!(answer(&prompt()), expected);
        // "Be kind." and "session: new", then 1 + 2 + 3 words; the answer has 10 + 2 + 6 + 5.
        assert_eq!(words(&prompt(), expected), (4 + 6, 23));
    }

    #[test]
    fn pieces_are_few_and_put_the_text_together_again() {
        for text in [
            "",
            "a",
            "äöü",
            &answer(&prompt()),
            &"€😀".repeat(5_000),
            &"x".repeat(16_000),
        ] {
            let pieces = pieces(text);
            assert_eq!(pieces.concat(), text);
            assert!(pieces.len() <= 8, "{}", pieces.len());
        }
        assert_eq!(pieces(&answer(&prompt())).len(), 6);
    }
}
