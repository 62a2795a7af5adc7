-- The turn ledger: every accepted message, what became of it, and the encrypted words themselves.

-- One row per user: the context revision, how many turns arrived, and which run holds the line.
CREATE TABLE user_heads (
  user_id      TEXT PRIMARY KEY REFERENCES users (user_id),
  -- Moves with every change of what a later turn would read.
  revision     INTEGER NOT NULL DEFAULT 0,
  -- Turns accepted so far; the latest one's arrival_no.
  arrivals     INTEGER NOT NULL DEFAULT 0,
  -- The one generation that may be running, the token that proves it, and when its lease runs out.
  running_turn TEXT,
  run_token    TEXT,
  run_until    INTEGER,
  CHECK ((running_turn IS NULL) = (run_token IS NULL)),
  CHECK ((run_token IS NULL) = (run_until IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE conversations (
  conversation_id        TEXT PRIMARY KEY,
  user_id                TEXT NOT NULL REFERENCES users (user_id),
  family_id              TEXT NOT NULL,
  channel                TEXT NOT NULL,
  gateway_id             TEXT,
  -- 1 for the conversation that a message without a conversation_id joins.
  is_default             INTEGER NOT NULL CHECK (is_default IN (0, 1)),
  visibility_scope       TEXT NOT NULL CHECK (visibility_scope IN
                           ('family', 'user_private', 'guardian_only', 'subject_and_guardians', 'system_safety')),
  subject_user_id        TEXT NOT NULL,
  created_by_user_id     TEXT NOT NULL,
  authorization_revision INTEGER NOT NULL,
  -- The session that is going on, and when the user last spoke in it.
  session_id             TEXT NOT NULL,
  last_message_at        INTEGER NOT NULL,
  created_at             INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX conversations_by_user ON conversations (user_id, channel);
CREATE UNIQUE INDEX conversations_default ON conversations (user_id, channel, ifnull(gateway_id, ''))
  WHERE is_default = 1;

CREATE TABLE sessions (
  session_id          TEXT PRIMARY KEY,
  user_id             TEXT NOT NULL,
  family_id           TEXT NOT NULL,
  conversation_id     TEXT NOT NULL REFERENCES conversations (conversation_id),
  -- Who decides where the session begins and ends.
  authority           TEXT NOT NULL CHECK (authority IN ('engine_gap', 'hermes')),
  gateway_id          TEXT,
  external_session_id TEXT,
  started_at          INTEGER NOT NULL,
  CHECK ((authority = 'hermes') = (external_session_id IS NOT NULL)),
  CHECK ((authority = 'hermes') = (gateway_id IS NOT NULL))
) STRICT, WITHOUT ROWID;

-- No message text stands here; it is in messages, encrypted. Hashes are keyed.
CREATE TABLE turns (
  turn_id                 TEXT PRIMARY KEY,
  origin                  TEXT NOT NULL CHECK (origin IN
                            ('direct', 'channel', 'context', 'proactive', 'reminder', 'event', 'challenge', 'notice')),
  request_id              TEXT NOT NULL,
  client_request_id       TEXT,
  trace_id                TEXT NOT NULL,
  parent_turn_id          TEXT,
  idempotency_key_hash    TEXT NOT NULL,
  request_hash            TEXT NOT NULL,
  family_id               TEXT,
  user_id                 TEXT,
  conversation_id         TEXT,
  channel                 TEXT NOT NULL,
  gateway_id              TEXT,
  external_ingress_hash   TEXT,
  source_address_hash     TEXT,
  locale                  TEXT,
  timezone                TEXT,

  visibility_scope        TEXT NOT NULL CHECK (visibility_scope IN
                            ('family', 'user_private', 'guardian_only', 'subject_and_guardians', 'system_safety')),
  subject_user_id         TEXT,
  created_by_user_id      TEXT,
  authorization_revision  INTEGER NOT NULL,

  session_id              TEXT,
  session_authority       TEXT CHECK (session_authority IN ('engine_gap', 'hermes')),
  -- The user's turns in the order they were accepted: 1, 2, 3, …
  arrival_no              INTEGER NOT NULL,
  -- The latest arrival_no of the conversation whose messages this turn could read.
  history_watermark       INTEGER NOT NULL,
  context_revision_read   INTEGER NOT NULL,
  context_revision_write  INTEGER,

  status                  TEXT NOT NULL CHECK (status IN ('accepted', 'processing', 'generated', 'persisted',
                            'delivery_pending', 'terminal_success', 'terminal_failure', 'cancelled')),
  generation_status       TEXT NOT NULL CHECK (generation_status IN ('not_started', 'started', 'completed', 'failed')),
  writeback_status        TEXT NOT NULL CHECK (writeback_status IN ('not_started', 'completed', 'deferred', 'failed')),
  delivery_status         TEXT NOT NULL CHECK (delivery_status IN ('not_required', 'pending', 'accepted', 'failed')),
  -- How often the model was called, whether a part of an answer was shown, and the run that did it last.
  model_calls             INTEGER NOT NULL DEFAULT 0 CHECK (model_calls BETWEEN 0 AND 2),
  shown                   INTEGER NOT NULL DEFAULT 0 CHECK (shown IN (0, 1)),
  run_token               TEXT,

  model_provider          TEXT,
  model_name              TEXT,
  prompt_hash             TEXT,
  response_hash           TEXT,
  input_tokens            INTEGER,
  output_tokens           INTEGER,
  cost_microunits         INTEGER,

  accepted_at             INTEGER NOT NULL,
  deadline_at             INTEGER NOT NULL,
  generation_started_at   INTEGER,
  generation_completed_at INTEGER,
  durable_write_at        INTEGER,
  response_committed_at   INTEGER,
  client_acknowledged_at  INTEGER,
  terminal_at             INTEGER,

  error_class             TEXT,
  error_code              TEXT,
  retryable               INTEGER CHECK (retryable IN (0, 1)),
  updated_at              INTEGER NOT NULL,

  CHECK ((status IN ('terminal_success', 'terminal_failure', 'cancelled')) = (terminal_at IS NOT NULL)),
  CHECK ((status = 'terminal_failure') = (error_code IS NOT NULL)),
  CHECK (origin NOT IN ('direct', 'channel', 'context', 'proactive', 'reminder')
         OR (user_id IS NOT NULL AND family_id IS NOT NULL AND subject_user_id IS NOT NULL)),
  CHECK (origin NOT IN ('direct', 'channel', 'context')
         OR (conversation_id IS NOT NULL AND session_id IS NOT NULL AND session_authority IS NOT NULL)),
  CHECK (origin NOT IN ('channel', 'context', 'notice') OR gateway_id IS NOT NULL)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX turns_by_key ON turns (user_id, channel, idempotency_key_hash);
CREATE INDEX turns_open ON turns (user_id, arrival_no) WHERE terminal_at IS NULL;

CREATE TABLE turn_events (
  turn_id       TEXT NOT NULL REFERENCES turns (turn_id),
  sequence_no   INTEGER NOT NULL,
  event_type    TEXT NOT NULL,
  event_at      INTEGER NOT NULL,
  actor         TEXT NOT NULL,
  attempt_no    INTEGER,
  -- Allowlisted keys only, never content.
  metadata_json TEXT NOT NULL DEFAULT '{}',
  PRIMARY KEY (turn_id, sequence_no)
) STRICT, WITHOUT ROWID;

-- What was said. Ordered by the turn that said it, so that an answer stands behind its question.
CREATE TABLE messages (
  conversation_id        TEXT NOT NULL REFERENCES conversations (conversation_id),
  arrival_no             INTEGER NOT NULL,
  role                   TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
  turn_id                TEXT NOT NULL,
  user_id                TEXT NOT NULL,
  family_id              TEXT NOT NULL,
  session_id             TEXT NOT NULL,
  visibility_scope       TEXT NOT NULL CHECK (visibility_scope IN
                           ('family', 'user_private', 'guardian_only', 'subject_and_guardians', 'system_safety')),
  subject_user_id        TEXT NOT NULL,
  created_by_user_id     TEXT NOT NULL,
  authorization_revision INTEGER NOT NULL,
  content_key_id         TEXT NOT NULL,
  content_sealed         BLOB NOT NULL,
  created_at             INTEGER NOT NULL,
  PRIMARY KEY (conversation_id, arrival_no, role)
) STRICT, WITHOUT ROWID;

UPDATE meta SET schema_version = 2;
