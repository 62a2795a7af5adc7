//! Everything a request is known by, gathered once after authentication and passed down to every hop.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::auth::Principal;
use crate::ids::{FamilyId, GatewayId, RequestId, TurnId, UserId};
use crate::time::Timestamp;

/// The way a message came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// The app and the web page, over `/chat`.
    Direct,
    Telegram,
    Imessage,
}

impl Channel {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Telegram => "telegram",
            Self::Imessage => "imessage",
        }
    }
}

/// Built once for each authenticated request that acts for a user.
///
/// The session is not in it: the user's object decides that, from the ledger, when it accepts the turn.
#[derive(Clone, Serialize, Deserialize)]
pub struct RequestContext {
    pub request_id: RequestId,
    /// The client's own `X-Request-Id`, if it sent a usable one.
    pub client_request_id: Option<String>,
    /// The turn this request opens, should it be accepted.
    pub turn_id: TurnId,
    /// Keyed hash of the caller's `Idempotency-Key`.
    pub idempotency_key_hash: String,
    pub principal: Principal,
    /// Whom the request acts for: the principal, or the person a gateway's sender was resolved to.
    pub user_id: UserId,
    pub family_id: FamilyId,
    pub channel: Channel,
    pub gateway_id: Option<GatewayId>,
    pub locale: Option<String>,
    pub timezone: Option<String>,
    pub received_at: Timestamp,
    /// When the caller stops waiting; every hop gives up then.
    pub deadline_at: Timestamp,
    /// Keyed hash of the caller's address.
    pub source_address_hash: Option<String>,
    /// 32 hex digits, from `traceparent` or minted.
    pub trace_id: String,
    pub parent_turn_id: Option<TurnId>,
    /// Names of the features switched on for this request.
    pub feature_flags: Vec<String>,
}

impl fmt::Debug for RequestContext {
    /// Only what may stand in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestContext")
            .field("request_id", &self.request_id)
            .field("channel", &self.channel)
            .field("trace_id", &self.trace_id)
            .finish_non_exhaustive()
    }
}
