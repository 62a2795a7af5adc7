//! What stands under a lease: all that a sender needs, still sealed.

use domain::ids::{AddressId, DataKeyId, FamilyId, GatewayId, LeaseToken, OutboxId, TurnId, UserId};
use domain::keys::{MasterVersion, OwnSealed};
use domain::outbox::Origin;
use domain::outbox::settlement::Tried;
use domain::outbox::template::Template;
use domain::sql::{Row, RowError, Rows, Statement};
use domain::time::Timestamp;

use crate::keys::KeyRow;
use crate::{id, wrong};

/// How many of a gateway's rows are looked at for when the next one is due.
const LOOK_MAX: u32 = 200;

/// What was claimed, and when there may be more.
#[derive(Clone)]
pub struct Claimed {
    pub rows: Vec<ClaimedRow>,
    /// How many more are held that cannot be made sense of, perhaps because a later version made them. They wait for
    /// their leases to end, and keep no other from being sent.
    pub unreadable: usize,
    /// `None` when there is no such gateway.
    pub gateway: Option<ClaimedGateway>,
    /// When something else of this gateway can be claimed next, as far as that is known now; never earlier than now.
    /// `None` also when it is shut: losing that moment is made up for by the sweep.
    pub next_due: Option<Timestamp>,
}

/// The gateway as the claim read it.
#[derive(Clone)]
pub struct ClaimedGateway {
    /// Its credential, sealed for the row of the gateway in `gateways.channel_token_sealed`.
    pub channel_token: Option<OwnSealed>,
    /// Its credential was not replaced while this stays the same.
    pub updated_at: Timestamp,
}

/// One row that is to be sent.
#[derive(Clone)]
pub struct ClaimedRow {
    pub outbox_id: OutboxId,
    /// Which attempt of this row it is on record as, from 1.
    pub attempt_no: i64,
    pub origin: Origin,
    pub turn_id: Option<TurnId>,
    pub user_id: Option<UserId>,
    pub family_id: Option<FamilyId>,
    pub trace_id: String,
    pub part_no: i64,
    pub part_count: i64,
    pub content: Content,
    pub to: Destination,
    pub tried: Tried,
    pub lease_until: Timestamp,
}

/// What is to be said.
#[derive(Clone)]
pub enum Content {
    /// These bytes of the answer of this turn.
    Message {
        turn_id: TurnId,
        from: usize,
        to: usize,
        content_hash: Option<String>,
        /// `None` when the answer or its key is gone.
        sealed: Option<SealedUnder>,
    },
    Template(Template),
}

/// Where it is to go.
#[derive(Clone)]
pub enum Destination {
    Address {
        address_id: AddressId,
        /// `None` when the address or its key is gone.
        sealed: Option<SealedUnder>,
    },
    /// Sealed for this row, in `outbound_messages.destination_sealed`.
    Chat(OwnSealed),
    /// Neither stands there: nothing can be sent.
    Nowhere,
}

/// A sealed value and the person's key that opens it, still wrapped.
#[derive(Clone)]
pub struct SealedUnder {
    pub key: KeyRow,
    pub sealed: Vec<u8>,
}

/// Reads what `token` holds: the end of a claim, and what a claim is looked up by whose reply was lost.
pub fn claimed(gateway: &GatewayId, token: &LeaseToken, now: Timestamp) -> Vec<Statement> {
    vec![
        Statement {
            name: "claimed_rows",
            sql: "SELECT m.outbox_id, m.origin, m.turn_id, m.user_id, m.family_id, m.trace_id, m.part_no, m.part_count,
  m.content_kind, m.content_ref, m.content_from, m.content_to, m.content_hash, m.address_id,
  m.destination_master_version, m.destination_sealed, m.attempt_count, m.ambiguous_count, m.max_attempts,
  m.expires_at, m.plain, m.moved, m.lease_expires_at,
  (SELECT max(n.attempt_no) FROM outbound_attempts n WHERE n.outbox_id = m.outbox_id) AS attempt_no,
  c.content_sealed, k.key_id AS content_key_id, k.master_version AS content_master_version,
  k.wrapped AS content_key_wrapped,
  a.external_sealed, w.key_id AS address_key_id, w.master_version AS address_master_version,
  w.wrapped AS address_key_wrapped
  FROM outbound_messages m
  LEFT JOIN turns t ON m.content_kind = 'message' AND t.turn_id = m.content_ref
  LEFT JOIN messages c ON c.conversation_id = t.conversation_id AND c.arrival_no = t.arrival_no
    AND c.role = 'assistant'
  LEFT JOIN data_keys k ON k.key_id = c.content_key_id AND k.destroyed_at IS NULL
  LEFT JOIN channel_addresses a ON a.address_id = m.address_id
  LEFT JOIN data_keys w ON w.key_id = a.external_key_id AND w.destroyed_at IS NULL
 WHERE m.lease_token = ?1
 ORDER BY m.priority, m.next_attempt_at",
            binds: vec![token.into()],
        },
        Statement {
            name: "claimed_gateway",
            sql: "SELECT channel_token_master_version, channel_token_sealed, updated_at FROM gateways
WHERE gateway_id = ?1",
            binds: vec![gateway.into()],
        },
        next_due(gateway, now),
    ]
}

/// When a row of this gateway can be claimed next that nobody holds; no row while the gateway is shut or switched off.
pub(super) fn next_due(gateway: &GatewayId, now: Timestamp) -> Statement {
    Statement {
        name: "next_due",
        sql: "SELECT min(max(m.next_attempt_at, ifnull(l.next_at, 0), ifnull(p.next_at, 0), CAST(?2 AS INTEGER))) AS next_due
  FROM (SELECT o.outbox_id, o.lane, o.lane_no, o.channel, o.gateway_id, o.next_attempt_at, o.expires_at, o.status
          FROM outbound_messages o WHERE o.gateway_id = ?1 AND o.terminal_at IS NULL
         ORDER BY o.priority, o.next_attempt_at LIMIT CAST(?3 AS INTEGER)) m
  LEFT JOIN send_lanes l ON l.lane = m.lane
  LEFT JOIN send_pacing p ON p.gateway_id = m.gateway_id
 WHERE m.status IN ('pending', 'retry') AND m.expires_at > CAST(?2 AS INTEGER)
   AND NOT EXISTS (SELECT 1 FROM outbound_messages b WHERE b.lane = m.lane AND b.lane_no < m.lane_no
     AND b.terminal_at IS NULL AND b.status <> 'quarantined')
   AND EXISTS (SELECT 1 FROM gateways g WHERE g.gateway_id = m.gateway_id AND g.status = 'active')
   AND NOT EXISTS (SELECT 1 FROM send_switches s WHERE s.enabled = 0 AND (s.scope, s.target) IN
     (VALUES ('global', ''), ('channel', m.channel), ('gateway', m.gateway_id)))",
        binds: vec![gateway.into(), now.into(), LOOK_MAX.into()],
    }
}

/// Reads the answer of [`next_due`].
pub(super) fn read_next_due(rows: &Rows) -> Result<Option<Timestamp>, RowError> {
    rows.first().map_or(Ok(None), |row| row.optional_timestamp("next_due"))
}

/// Reads the rows of a committed claim or of [`claimed`], as of `now`.
pub fn read_claimed(rows: &[Rows], now: Timestamp) -> Result<Claimed, RowError> {
    let [.., messages, gateway, next_due] = rows else {
        return Err(wrong("", "what was claimed"));
    };
    let rows: Vec<ClaimedRow> = messages.rows.iter().filter_map(|row| read_row(row).ok()).collect();
    let gateway = gateway.first().map(read_gateway).transpose()?;
    // What is due and was not taken is forbidden by something else than time: asking again at once would not help.
    let next_due = read_next_due(next_due)?.filter(|at| !rows.is_empty() || *at > now);
    Ok(Claimed {
        unreadable: messages.rows.len().saturating_sub(rows.len()),
        rows,
        gateway,
        next_due,
    })
}

fn read_gateway(row: &Row) -> Result<ClaimedGateway, RowError> {
    Ok(ClaimedGateway {
        channel_token: own(row, "channel_token_master_version", "channel_token_sealed")?,
        updated_at: row.timestamp("updated_at")?,
    })
}

fn own(row: &Row, version: &str, sealed: &str) -> Result<Option<OwnSealed>, RowError> {
    let (Some(stored), Some(sealed)) = (row.optional_integer(version)?, row.optional_blob(sealed)?) else {
        return Ok(None);
    };
    Ok(Some(OwnSealed {
        master_version: MasterVersion::from_stored(stored).ok_or_else(|| wrong(version, "a version"))?,
        sealed: sealed.to_vec(),
    }))
}

fn optional<T>(row: &Row, column: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>, RowError> {
    let Some(text) = row.optional_text(column)? else {
        return Ok(None);
    };
    parse(text).map(Some).ok_or_else(|| wrong(column, "an id or NULL"))
}

/// A value under a person's key; `None` when either is gone.
fn under(row: &Row, sealed: &str, key: [&str; 3]) -> Result<Option<SealedUnder>, RowError> {
    let [key_id, version, wrapped] = key;
    let key_id = optional(row, key_id, |text| DataKeyId::parse(text).ok())?;
    let (Some(key_id), Some(sealed)) = (key_id, row.optional_blob(sealed)?) else {
        return Ok(None);
    };
    Ok(Some(SealedUnder {
        key: KeyRow {
            key_id,
            master_version: row.integer(version)?,
            wrapped: row.blob(wrapped)?.to_vec(),
        },
        sealed: sealed.to_vec(),
    }))
}

fn content(row: &Row) -> Result<Content, RowError> {
    if row.text("content_kind")? == "template" {
        let template = Template::parse(row.text("content_ref")?).ok_or_else(|| wrong("content_ref", "a template"))?;
        return Ok(Content::Template(template));
    }
    let place = |column: &str| usize::try_from(row.integer(column)?).map_err(|_| wrong(column, "a place in a text"));
    let key = ["content_key_id", "content_master_version", "content_key_wrapped"];
    Ok(Content::Message {
        turn_id: id(row, "content_ref", TurnId::parse)?,
        from: place("content_from")?,
        to: place("content_to")?,
        content_hash: row.optional_text("content_hash")?.map(str::to_owned),
        sealed: under(row, "content_sealed", key)?,
    })
}

fn destination(row: &Row) -> Result<Destination, RowError> {
    if let Some(address_id) = optional(row, "address_id", |text| AddressId::parse(text).ok())? {
        let key = ["address_key_id", "address_master_version", "address_key_wrapped"];
        return Ok(Destination::Address {
            address_id,
            sealed: under(row, "external_sealed", key)?,
        });
    }
    let chat = own(row, "destination_master_version", "destination_sealed")?;
    Ok(chat.map_or(Destination::Nowhere, Destination::Chat))
}

fn read_row(row: &Row) -> Result<ClaimedRow, RowError> {
    Ok(ClaimedRow {
        outbox_id: id(row, "outbox_id", OutboxId::parse)?,
        attempt_no: row.integer("attempt_no")?,
        origin: Origin::parse(row.text("origin")?).ok_or_else(|| wrong("origin", "an origin"))?,
        turn_id: optional(row, "turn_id", |text| TurnId::parse(text).ok())?,
        user_id: optional(row, "user_id", |text| UserId::parse(text).ok())?,
        family_id: optional(row, "family_id", |text| FamilyId::parse(text).ok())?,
        trace_id: row.text("trace_id")?.to_owned(),
        part_no: row.integer("part_no")?,
        part_count: row.integer("part_count")?,
        content: content(row)?,
        to: destination(row)?,
        tried: tried(row)?,
        lease_until: row.timestamp("lease_expires_at")?,
    })
}

/// What the columns of a row say of its attempts.
pub(super) fn tried(row: &Row) -> Result<Tried, RowError> {
    Ok(Tried {
        attempt_count: row.integer("attempt_count")?,
        ambiguous_count: row.integer("ambiguous_count")?,
        max_attempts: row.integer("max_attempts")?,
        expires_at: row.timestamp("expires_at")?,
        plain: row.flag("plain")?,
        moved: row.flag("moved")?,
    })
}
