//! What is done with an update: every kind has its answer here.

use domain::http::bodies::MESSAGE_MAX;
use domain::outbox::template::Template;
use domain::telegram::update::Content;
use store::channels::dedup::Disposition;
use store::channels::link::CodeFacts;
use store::channels::sender::SenderFacts;
use store::keys::KeyRow;

use super::incoming::Incoming;

/// What is done with an update.
pub enum Decision<'a> {
    /// It is remembered, and that is all.
    Ignore,
    /// It becomes a turn of the person behind the chat.
    Turn { words: &'a str, key: &'a KeyRow },
    /// A fixed text to the person behind the chat.
    Tell(Note),
    /// A fixed text to a chat that nobody is known behind, or no longer.
    TellChat(Note),
    /// The chat is bound to the person whose code it is.
    Link { code: &'a CodeFacts, key: &'a KeyRow },
    /// The chat is bound to nobody any more.
    Stop(Note),
}

/// A fixed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note {
    pub disposition: Disposition,
    pub template: Template,
    pub often: Often,
}

/// How often a chat gets the same fixed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Often {
    /// For every update that asks for it.
    EachTime,
    /// At most once in a minute: the pictures of an album are updates of their own.
    Minute,
    /// At most once in ten minutes.
    TenMinutes,
    /// At most once in a day (UTC).
    Day,
}

const fn note(disposition: Disposition, template: Template, often: Often) -> Note {
    Note {
        disposition,
        template,
        often,
    }
}

/// How someone not known here is told how to become so.
const LINK_FIRST: Note = note(Disposition::Unlinked, Template::LinkFirst, Often::Day);
const REFUSED: Note = note(Disposition::LinkRefused, Template::LinkRefused, Often::TenMinutes);
pub const LINKED: Note = note(Disposition::Linked, Template::Linked, Often::EachTime);

/// Decides on an update, given the person behind its chat, what is known of its code, and how many turns one person may
/// have waiting.
pub fn decide<'a>(
    incoming: &'a Incoming,
    sender: Option<&'a SenderFacts>,
    code: Option<&'a CodeFacts>,
    line_max: usize,
) -> Decision<'a> {
    let Some(content) = incoming.content() else {
        return Decision::Ignore;
    };
    // Whose key is gone is nobody any more.
    let known = sender.and_then(|sender| sender.key.as_ref().map(|key| (sender, key)));
    let to_person = |disposition, template, often| Decision::Tell(note(disposition, template, often));
    match (content, known) {
        (Content::Service, _) => Decision::Ignore,
        (Content::Words(words), _) if words.trim().is_empty() => Decision::Ignore,
        (Content::Start(Some(_)), _) => start(code, known.map(|(sender, _)| sender)),
        (Content::Stop, Some(_)) => Decision::Stop(note(Disposition::Stopped, Template::Stopped, Often::EachTime)),
        (Content::Stop, None) => Decision::Stop(note(Disposition::Stopped, Template::Stopped, Often::TenMinutes)),
        (Content::Help | Content::Start(None), Some(_)) => {
            to_person(Disposition::Helped, Template::Help, Often::EachTime)
        }
        (Content::Help, None) => Decision::TellChat(note(Disposition::Helped, Template::Help, Often::TenMinutes)),
        (Content::Words(_) | Content::Wordless | Content::Start(None), None) => Decision::TellChat(LINK_FIRST),
        (Content::Wordless, Some(_)) => to_person(Disposition::Answered, Template::TextOnly, Often::Minute),
        (Content::Words(words), Some(_)) if words.len() > MESSAGE_MAX => {
            to_person(Disposition::Answered, Template::TooLong, Often::EachTime)
        }
        (Content::Words(_), Some((sender, _))) if is_full(sender, line_max) => {
            to_person(Disposition::Answered, Template::TooMany, Often::Minute)
        }
        (Content::Words(words), Some((_, key))) => Decision::Turn { words, key },
    }
}

/// Messages that arrive at the same time each see the line without the others, so it may come out longer by as many as
/// Telegram delivers at once.
fn is_full(sender: &SenderFacts, line_max: usize) -> bool {
    usize::try_from(sender.waiting).is_ok_and(|waiting| waiting >= line_max)
}

fn start<'a>(code: Option<&'a CodeFacts>, known: Option<&SenderFacts>) -> Decision<'a> {
    let usable = code.and_then(|code| code.key.as_ref().map(|key| (code, key)));
    match usable {
        Some((code, key)) if !code.used => Decision::Link { code, key },
        // The same link opened twice: the chat is theirs already.
        Some((code, _)) if known.is_some_and(|known| known.sender.user_id == code.user_id) => Decision::Tell(LINKED),
        Some(_) | None => Decision::TellChat(REFUSED),
    }
}
