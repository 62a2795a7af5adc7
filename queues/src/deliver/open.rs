//! Opening what a claim read: words, destination, credential.

use domain::ids::{GatewayId, UserId};
use domain::keys::{Aad, DataKey, KeySubject, MasterSecrets, OwnSealed};
use domain::outbox::outcome::{ErrorClass, ErrorCode, Holds, Outcome};
use domain::turn::message_row;
use store::outbox::claimed::{ClaimedRow, Content, Destination, SealedUnder};

/// What could not be opened: its key is gone, a master secret is missing, or it is not what it claims to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unopened {
    /// The key was destroyed, with it the words or the address: nothing is left to be sent.
    Gone,
    /// It ought to open and does not.
    Broken,
}

impl Unopened {
    /// What an attempt comes to that had nothing to send.
    pub const fn outcome(self) -> Outcome {
        let (class, code) = (ErrorClass::Content, ErrorCode::ContentUnreadable);
        match self {
            Self::Gone => Outcome::Rejected { class, code },
            // A secret that was removed too early can be put back, and then nothing is lost.
            Self::Broken => Outcome::Retry {
                class,
                code,
                after: None,
                holds: Holds::Row,
            },
        }
    }
}

/// The words of a row, and the person's key that sealed them, if a person's did.
pub fn words(row: &ClaimedRow, secrets: &MasterSecrets) -> Result<(String, Option<DataKey>), Unopened> {
    match &row.content {
        Content::Template(template) => Ok((template.text().to_owned(), None)),
        Content::Message {
            turn_id,
            from,
            to,
            content_hash,
            sealed,
        } => {
            let message = message_row(turn_id, false);
            let place = Aad {
                table: "messages",
                row: &message,
                column: "content_sealed",
            };
            let (key, answer) = open(row, sealed.as_ref(), &place, None, secrets)?;
            let part = answer.get(*from..*to).ok_or(Unopened::Broken)?;
            // The range is not sealed: only the very part that was committed is sent.
            if content_hash.as_deref() != Some(key.content_hash(part.as_bytes()).as_str()) {
                return Err(Unopened::Broken);
            }
            Ok((part.to_owned(), Some(key)))
        }
    }
}

/// The provider's id of the chat that a row goes to, and the person's key that sealed it, if a person's did. `known`: a
/// key that is unwrapped already, most likely the same.
pub fn destination(
    row: &ClaimedRow,
    known: Option<&DataKey>,
    secrets: &MasterSecrets,
) -> Result<(String, Option<DataKey>), Unopened> {
    match &row.to {
        Destination::Address { address_id, sealed } => {
            let place = Aad {
                table: "channel_addresses",
                row: address_id.as_str(),
                column: "external_sealed",
            };
            let (key, chat) = open(row, sealed.as_ref(), &place, known, secrets)?;
            Ok((chat, Some(key)))
        }
        Destination::Chat(own) => {
            let place = Aad {
                table: "outbound_messages",
                row: row.outbox_id.as_str(),
                column: "destination_sealed",
            };
            Ok((open_own(own, &place, secrets)?, None))
        }
        Destination::Nowhere => Err(Unopened::Gone),
    }
}

/// The provider's credential of a gateway.
pub fn credential(gateway_id: &GatewayId, sealed: &OwnSealed, secrets: &MasterSecrets) -> Result<String, Unopened> {
    let place = Aad {
        table: "gateways",
        row: gateway_id.as_str(),
        column: "channel_token_sealed",
    };
    open_own(sealed, &place, secrets)
}

fn open(
    row: &ClaimedRow,
    sealed: Option<&SealedUnder>,
    place: &Aad<'_>,
    known: Option<&DataKey>,
    secrets: &MasterSecrets,
) -> Result<(DataKey, String), Unopened> {
    let sealed = sealed.ok_or(Unopened::Gone)?;
    let user_id: UserId = row.user_id.clone().ok_or(Unopened::Broken)?;
    let subject = KeySubject::User(user_id);
    let same = known.filter(|key| *key.id() == sealed.key.key_id && *key.subject() == subject);
    let key = match same {
        Some(key) => key.clone(),
        None => sealed.key.unwrap_for(&subject, secrets).map_err(|_| Unopened::Broken)?,
    };
    let bytes = key.open(place, &sealed.sealed).map_err(|_| Unopened::Broken)?;
    let text = String::from_utf8(bytes).map_err(|_| Unopened::Broken)?;
    Ok((key, text))
}

fn open_own(sealed: &OwnSealed, place: &Aad<'_>, secrets: &MasterSecrets) -> Result<String, Unopened> {
    let bytes = secrets.open_own(place, sealed).map_err(|_| Unopened::Broken)?;
    String::from_utf8(bytes).map_err(|_| Unopened::Broken)
}
