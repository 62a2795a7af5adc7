//! Where a message goes: its conversation and its session.

use domain::ids::{ConversationId, SessionId};
use domain::ports::Entropy;
use domain::session;
use domain::sql::{Row, RowError};
use domain::time::Timestamp;

/// A conversation as the ledger had it when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationSeen {
    pub conversation_id: ConversationId,
    pub session_id: SessionId,
    pub last_message_at: Timestamp,
    /// Messages that name no conversation go here.
    pub is_default: bool,
}

/// Where a message goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The user's first message on this channel opens the default conversation.
    Opens {
        conversation_id: ConversationId,
        session_id: SessionId,
    },
    /// The session that is going on.
    Continues(ConversationSeen),
    /// A new session of a known conversation.
    Resumes {
        seen: ConversationSeen,
        session_id: SessionId,
    },
}

impl ConversationSeen {
    /// Reads a row with its four columns.
    pub fn read(row: &Row) -> Result<Self, RowError> {
        Ok(Self {
            conversation_id: crate::id(row, "conversation_id", ConversationId::parse)?,
            session_id: crate::id(row, "session_id", SessionId::parse)?,
            last_message_at: row.timestamp("last_message_at")?,
            is_default: row.flag("is_default")?,
        })
    }
}

impl Place {
    /// Where a message goes that is accepted at `now`, given the conversation it belongs to, if there is one.
    pub fn of(seen: Option<ConversationSeen>, now: Timestamp, entropy: &impl Entropy) -> Self {
        match seen {
            None => Self::Opens {
                conversation_id: ConversationId::mint(now, entropy),
                session_id: SessionId::mint(now, entropy),
            },
            Some(seen) if session::continues(seen.last_message_at, now) => Self::Continues(seen),
            Some(seen) => Self::Resumes {
                seen,
                session_id: SessionId::mint(now, entropy),
            },
        }
    }

    pub fn conversation_id(&self) -> &ConversationId {
        match self {
            Self::Opens { conversation_id, .. } => conversation_id,
            Self::Continues(seen) | Self::Resumes { seen, .. } => &seen.conversation_id,
        }
    }

    pub fn session_id(&self) -> &SessionId {
        match self {
            Self::Opens { session_id, .. } | Self::Resumes { session_id, .. } => session_id,
            Self::Continues(seen) => &seen.session_id,
        }
    }

    pub(super) const fn starts_session(&self) -> bool {
        match self {
            Self::Opens { .. } | Self::Resumes { .. } => true,
            Self::Continues(_) => false,
        }
    }
}
