-- Directory: who exists, who may call, and the keys that protect what they say.

-- The guard view. A batch begins with INSERT INTO must(label, ok) SELECT 'name', <condition>; when the condition is
-- not 1 the whole batch aborts and the label comes back in the error, with nothing written.
-- RAISE with a computed message needs SQLite 3.47 or newer: older tools cannot open this database for writing.
CREATE VIEW must(label, ok) AS SELECT NULL, NULL WHERE 0;
CREATE TRIGGER must_hold INSTEAD OF INSERT ON must WHEN NEW.ok IS NOT 1
BEGIN
  SELECT RAISE(ABORT, 'pre:' || NEW.label);
END;

-- One row: what every running part must agree on.
CREATE TABLE meta (
  id                INTEGER PRIMARY KEY CHECK (id = 1),
  schema_version    INTEGER NOT NULL,
  epoch             INTEGER NOT NULL,
  -- Tokens issued before this are refused, whoever holds them.
  tokens_valid_from INTEGER NOT NULL
) STRICT;
INSERT INTO meta (id, schema_version, epoch, tokens_valid_from) VALUES (1, 1, 1, 0);

-- Operators stop sends here; a missing row means enabled. scope: 'global', 'gateway', 'channel'.
CREATE TABLE send_switches (
  scope      TEXT NOT NULL CHECK (scope IN ('global', 'gateway', 'channel')),
  target     TEXT NOT NULL,
  enabled    INTEGER NOT NULL CHECK (enabled IN (0, 1)),
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (scope, target)
) STRICT, WITHOUT ROWID;

-- Leases of the service itself, such as the sweep's.
CREATE TABLE service_leases (
  name       TEXT PRIMARY KEY,
  token      TEXT,
  held_until INTEGER,
  CHECK ((token IS NULL) = (held_until IS NULL))
) STRICT, WITHOUT ROWID;
INSERT INTO service_leases (name) VALUES ('sweep');

CREATE TABLE families (
  family_id  TEXT PRIMARY KEY,
  status     TEXT NOT NULL CHECK (status IN ('active', 'suspended')),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE users (
  user_id                TEXT PRIMARY KEY,
  family_id              TEXT NOT NULL REFERENCES families (family_id),
  role                   TEXT NOT NULL CHECK (role IN
                           ('guardian', 'adult_member', 'child_member', 'caregiver_limited', 'system_operator')),
  status                 TEXT NOT NULL CHECK (status IN ('active', 'suspended')),
  -- Moves on every change of role, status or family; a token that names an older one is stale.
  authorization_revision INTEGER NOT NULL CHECK (authorization_revision >= 1),
  tokens_valid_from      INTEGER NOT NULL DEFAULT 0,
  created_at             INTEGER NOT NULL,
  updated_at             INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX users_by_family ON users (family_id);

-- Upstream issuers of identity tokens. Exactly one of jwks_url and jwks_json is set.
CREATE TABLE upstreams (
  idp        TEXT PRIMARY KEY,
  issuer     TEXT NOT NULL UNIQUE,
  audience   TEXT NOT NULL,
  algorithms TEXT NOT NULL,
  jwks_url   TEXT,
  jwks_json  TEXT,
  status     TEXT NOT NULL CHECK (status IN ('active', 'suspended')),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  CHECK ((jwks_url IS NULL) <> (jwks_json IS NULL))
) STRICT, WITHOUT ROWID;

-- Which person an upstream's subject is. The subject is kept only as a keyed hash.
CREATE TABLE identities (
  idp          TEXT NOT NULL REFERENCES upstreams (idp),
  subject_hash TEXT NOT NULL,
  user_id      TEXT NOT NULL REFERENCES users (user_id),
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  PRIMARY KEY (idp, subject_hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX identities_by_user ON identities (user_id);

CREATE TABLE gateways (
  gateway_id             TEXT PRIMARY KEY,
  -- JSON arrays of strings: what a service token of this gateway may do, and on which channels.
  scopes                 TEXT NOT NULL,
  channels               TEXT NOT NULL,
  profile                TEXT,
  production             INTEGER NOT NULL CHECK (production IN (0, 1)),
  -- The public key (JWK) that its client assertions are checked against.
  assertion_jwk          TEXT NOT NULL,
  -- Keyed hash of the webhook secret; NULL closes the webhook route.
  webhook_secret_hash    TEXT,
  status                 TEXT NOT NULL CHECK (status IN ('active', 'suspended', 'broken')),
  authorization_revision INTEGER NOT NULL CHECK (authorization_revision >= 1),
  tokens_valid_from      INTEGER NOT NULL DEFAULT 0,
  created_at             INTEGER NOT NULL,
  updated_at             INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The families a gateway may speak for; none means none.
CREATE TABLE gateway_families (
  gateway_id TEXT NOT NULL REFERENCES gateways (gateway_id),
  family_id  TEXT NOT NULL REFERENCES families (family_id),
  PRIMARY KEY (gateway_id, family_id)
) STRICT, WITHOUT ROWID;

-- Client assertions that were used: each jti works once.
CREATE TABLE used_assertions (
  gateway_id TEXT NOT NULL,
  jti_hash   TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (gateway_id, jti_hash)
) STRICT, WITHOUT ROWID;

-- A person's address on a channel: encrypted, found by a keyed hash.
CREATE TABLE channel_addresses (
  address_id        TEXT PRIMARY KEY,
  gateway_id        TEXT NOT NULL REFERENCES gateways (gateway_id),
  channel           TEXT NOT NULL,
  user_id           TEXT NOT NULL REFERENCES users (user_id),
  external_hash     TEXT NOT NULL,
  external_key_id   TEXT NOT NULL,
  external_sealed   BLOB NOT NULL,
  status            TEXT NOT NULL CHECK (status IN ('active', 'disabled')),
  created_at        INTEGER NOT NULL,
  updated_at        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX channel_addresses_by_external ON channel_addresses (gateway_id, channel, external_hash)
  WHERE status = 'active';
CREATE INDEX channel_addresses_by_user ON channel_addresses (user_id);

-- Data keys, one per user and one per family, wrapped under a key derived from a versioned master secret.
-- Destroying a key empties `wrapped`: what it encrypted can no longer be read, backups included.
CREATE TABLE data_keys (
  key_id         TEXT PRIMARY KEY,
  subject_kind   TEXT NOT NULL CHECK (subject_kind IN ('user', 'family')),
  subject_id     TEXT NOT NULL,
  master_version INTEGER NOT NULL,
  wrapped        BLOB,
  created_at     INTEGER NOT NULL,
  destroyed_at   INTEGER,
  CHECK ((wrapped IS NULL) = (destroyed_at IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX data_keys_live_by_subject ON data_keys (subject_kind, subject_id) WHERE destroyed_at IS NULL;
-- The work list of a rotation: which live keys are still under an older version.
CREATE INDEX data_keys_live_by_master ON data_keys (master_version) WHERE destroyed_at IS NULL;

-- Results of commands that carried an Idempotency-Key, by who sent it and to which route.
CREATE TABLE idempotency_results (
  caller       TEXT NOT NULL,
  route        TEXT NOT NULL,
  key_hash     TEXT NOT NULL,
  request_hash TEXT NOT NULL,
  status       INTEGER NOT NULL,
  response     TEXT NOT NULL,
  created_at   INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL,
  PRIMARY KEY (caller, route, key_hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_results_expired ON idempotency_results (expires_at);
