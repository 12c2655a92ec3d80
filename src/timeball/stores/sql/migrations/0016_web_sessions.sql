-- Browsers that are signed in, and the tokens of one-time links. Only digests are stored.
-- works with: 5

CREATE TABLE web_sessions (
  id {id} PRIMARY KEY,
  digest TEXT NOT NULL,
  tenant TEXT NOT NULL,
  key_id {id} NOT NULL,
  created_at BIGINT NOT NULL,
  last_used_at BIGINT NOT NULL
) {clustered};

CREATE UNIQUE INDEX web_sessions_by_digest ON web_sessions (digest);
CREATE INDEX web_sessions_by_tenant ON web_sessions (tenant, id);
CREATE INDEX web_sessions_by_key ON web_sessions (key_id, last_used_at);
CREATE INDEX web_sessions_by_use ON web_sessions (last_used_at);

CREATE TABLE sign_in_tokens (
  digest TEXT PRIMARY KEY,
  key_id {id} NOT NULL,
  expires_at BIGINT NOT NULL
) {clustered};

CREATE INDEX sign_in_tokens_by_expiry ON sign_in_tokens (expires_at);
