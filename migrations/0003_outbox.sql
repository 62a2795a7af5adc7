-- Channels: what came in, what goes out, and the codes that bind a chat to a person.

-- The provider's credential of a gateway (a bot token), sealed under a key derived from the master secret. Where there
-- is none, an outside sender does this gateway's sending.
ALTER TABLE gateways ADD COLUMN channel_token_master_version INTEGER;
ALTER TABLE gateways ADD COLUMN channel_token_sealed BLOB;

-- Where the answer of a channel turn goes.
ALTER TABLE turns ADD COLUMN address_id TEXT;
-- Turns that wait for a delivery can be many, while a provider is down for a day. They have a list of their own, so
-- that they are in nobody's way who looks for turns that wait for an answer.
DROP INDEX turns_open;
CREATE INDEX turns_open ON turns (user_id, arrival_no) WHERE terminal_at IS NULL AND delivery_status <> 'pending';
CREATE INDEX turns_delivering ON turns (user_id, turn_id) WHERE delivery_status = 'pending';

-- How far a round got that takes on a part of its work each time: the next one goes on behind it.
ALTER TABLE service_leases ADD COLUMN place TEXT;
INSERT INTO service_leases (name) VALUES ('funnel'), ('repair'), ('orders');

-- Every update a channel delivered, by its provider's own id. A repetition is counted, never handled again.
CREATE TABLE inbound_dedup (
  gateway_id      TEXT NOT NULL,
  -- Keyed hash of the provider's id of the update.
  ingress_hash    TEXT NOT NULL,
  -- What was done with it.
  disposition     TEXT NOT NULL CHECK (disposition IN
                    ('turn', 'linked', 'link_refused', 'unlinked', 'stopped', 'helped', 'answered', 'ignored')),
  -- The provider's kind of update, from a closed list.
  update_kind     TEXT NOT NULL,
  user_id         TEXT,
  -- Written in the turn's own batch. Not a foreign key, which would have every change of a turn look here.
  turn_id         TEXT,
  payload_hash    TEXT NOT NULL,
  first_seen_at   INTEGER NOT NULL,
  last_seen_at    INTEGER NOT NULL,
  duplicate_count INTEGER NOT NULL DEFAULT 0,
  -- How often the same id came with another payload; such an update is refused.
  conflict_count  INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (gateway_id, ingress_hash),
  CHECK ((disposition = 'turn') = (turn_id IS NOT NULL)),
  CHECK (turn_id IS NULL OR user_id IS NOT NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX inbound_dedup_by_age ON inbound_dedup (first_seen_at);

-- One-time codes with which a signed-in person binds a chat. Only a keyed hash of the code is kept.
CREATE TABLE link_codes (
  code_hash  TEXT PRIMARY KEY,
  user_id    TEXT NOT NULL REFERENCES users (user_id),
  channel    TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  used_at    INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX link_codes_by_expiry ON link_codes (expires_at);
CREATE INDEX link_codes_by_user ON link_codes (user_id);

-- One row per destination: messages to it go one at a time, in this order and no faster than its pace.
CREATE TABLE send_lanes (
  -- Channel, gateway and keyed hash of the destination.
  lane       TEXT PRIMARY KEY,
  gateway_id TEXT NOT NULL,
  -- The lane_no given last.
  last_no    INTEGER NOT NULL,
  -- No send is started before this.
  next_at    INTEGER NOT NULL DEFAULT 0,
  -- When an unused lane may be forgotten; moves in whole days, so that its index rarely changes.
  idle_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX send_lanes_idle ON send_lanes (idle_at);

-- One row per gateway that has sent: the pace of the bot as a whole.
CREATE TABLE send_pacing (
  gateway_id TEXT PRIMARY KEY,
  -- No send is started before this: the pace, or as long as the provider said to wait.
  next_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The outbox: one row for each message to a provider. The words are not here; content_ref leads to them.
CREATE TABLE outbound_messages (
  outbox_id              TEXT PRIMARY KEY,
  origin                 TEXT NOT NULL CHECK (origin IN
                           ('channel', 'context', 'proactive', 'reminder', 'event', 'challenge', 'notice')),
  turn_id                TEXT REFERENCES turns (turn_id),
  parent_turn_id         TEXT,
  trace_id               TEXT NOT NULL,
  family_id              TEXT,
  user_id                TEXT,
  channel                TEXT NOT NULL CHECK (channel IN ('telegram', 'imessage', 'webpush', 'expo')),
  gateway_id             TEXT,
  -- The destination: an address, or (where no person is known) a sealed one of its own.
  address_id             TEXT,
  destination_master_version    INTEGER,
  destination_sealed     BLOB,
  lane                   TEXT NOT NULL,
  lane_no                INTEGER NOT NULL,
  -- The parts of one reply: consecutive rows of one group, from 1.
  group_id               TEXT NOT NULL,
  part_no                INTEGER NOT NULL CHECK (part_no >= 1),
  part_count             INTEGER NOT NULL,
  -- 'message': the answer of the turn in content_ref, its bytes from content_from to before content_to.
  -- 'template': the fixed text of that name.
  content_kind           TEXT NOT NULL CHECK (content_kind IN ('message', 'template')),
  content_ref            TEXT NOT NULL,
  content_from           INTEGER,
  content_to             INTEGER,
  content_hash           TEXT,

  visibility_scope       TEXT CHECK (visibility_scope IN
                           ('family', 'user_private', 'guardian_only', 'subject_and_guardians', 'system_safety')),
  subject_user_id        TEXT,
  created_by_user_id     TEXT,
  -- The person's revision when the row was made; when it has moved, the row is no longer sent.
  authorization_revision INTEGER,

  idempotency_key        TEXT NOT NULL,
  status                 TEXT NOT NULL CHECK (status IN ('pending', 'leased', 'retry', 'provider_accepted',
                           'acknowledged', 'failed', 'expired', 'cancelled', 'quarantined')),
  -- Smaller goes first.
  priority               INTEGER NOT NULL,
  not_before             INTEGER NOT NULL,
  -- No send is started at or after this.
  expires_at             INTEGER NOT NULL,
  attempt_count          INTEGER NOT NULL DEFAULT 0,
  -- Attempts of which nobody knows whether the provider took them.
  ambiguous_count        INTEGER NOT NULL DEFAULT 0,
  max_attempts           INTEGER NOT NULL,
  -- The provider could not read the formatting: sent as plain text from now on.
  plain                  INTEGER NOT NULL DEFAULT 0 CHECK (plain IN (0, 1)),
  -- The destination moved once already.
  moved                  INTEGER NOT NULL DEFAULT 0 CHECK (moved IN (0, 1)),

  lease_owner            TEXT,
  lease_token            TEXT,
  lease_expires_at       INTEGER,
  last_attempt_at        INTEGER,
  next_attempt_at        INTEGER NOT NULL,

  provider_message_id    TEXT,
  provider_accepted_at   INTEGER,
  acknowledged_at        INTEGER,

  last_error_class       TEXT,
  last_error_code        TEXT,

  created_at             INTEGER NOT NULL,
  updated_at             INTEGER NOT NULL,
  terminal_at            INTEGER,

  CHECK ((status = 'leased') = (lease_token IS NOT NULL)),
  CHECK ((lease_token IS NULL) = (lease_expires_at IS NULL)),
  CHECK ((lease_token IS NULL) = (lease_owner IS NULL)),
  CHECK ((status IN ('provider_accepted', 'acknowledged', 'failed', 'expired', 'cancelled')) = (terminal_at IS NOT NULL)),
  CHECK ((content_kind = 'message') = (content_from IS NOT NULL)),
  CHECK ((content_from IS NULL) = (content_to IS NULL)),
  CHECK ((destination_sealed IS NULL) = (destination_master_version IS NULL)),
  CHECK (destination_sealed IS NULL OR (address_id IS NULL AND user_id IS NULL)),
  CHECK (part_no <= part_count),
  CHECK ((user_id IS NULL) = (authorization_revision IS NULL)),
  CHECK ((user_id IS NULL) = (family_id IS NULL)),
  CHECK ((user_id IS NULL) = (visibility_scope IS NULL)),
  CHECK (origin NOT IN ('channel', 'context', 'proactive', 'reminder')
         OR (turn_id IS NOT NULL AND user_id IS NOT NULL)),
  CHECK (channel NOT IN ('telegram', 'imessage') OR gateway_id IS NOT NULL),
  -- Words of a person go only to an address of that person.
  CHECK (content_kind = 'template' OR (user_id IS NOT NULL AND address_id IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX outbound_by_key ON outbound_messages (idempotency_key);
CREATE INDEX outbound_by_turn ON outbound_messages (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX outbound_open_by_gateway ON outbound_messages (gateway_id, priority, next_attempt_at)
  WHERE terminal_at IS NULL;
CREATE UNIQUE INDEX outbound_open_by_lane ON outbound_messages (lane, lane_no) WHERE terminal_at IS NULL;
CREATE INDEX outbound_open_by_expiry ON outbound_messages (expires_at) WHERE terminal_at IS NULL;
CREATE INDEX outbound_leased ON outbound_messages (lease_token) WHERE lease_token IS NOT NULL;
CREATE INDEX outbound_open_by_user ON outbound_messages (user_id) WHERE terminal_at IS NULL AND user_id IS NOT NULL;

-- Every try to hand a row to its provider, put on record before the provider is called.
CREATE TABLE outbound_attempts (
  outbox_id            TEXT NOT NULL REFERENCES outbound_messages (outbox_id),
  attempt_no           INTEGER NOT NULL,
  worker_id            TEXT NOT NULL,
  lease_token          TEXT NOT NULL,
  started_at           INTEGER NOT NULL,
  finished_at          INTEGER,
  -- NULL while it is going on.
  outcome              TEXT CHECK (outcome IN
                         ('accepted', 'retry', 'gone', 'rejected', 'ambiguous', 'not_started')),
  provider_http_status INTEGER,
  provider_message_id  TEXT,
  retry_after_ms       INTEGER,
  error_class          TEXT,
  error_code           TEXT,
  PRIMARY KEY (outbox_id, attempt_no),
  CHECK ((finished_at IS NULL) = (outcome IS NULL))
) STRICT, WITHOUT ROWID;

UPDATE meta SET schema_version = 3;
