-- Browsers that users of the identity provider are signed in with.
-- works with: 5

-- The user, as the identity provider stated it at the sign-in; NULL: an API key opened the session. `key_id` is then the
-- id of the user's account.
ALTER TABLE web_sessions ADD COLUMN issuer TEXT;
ALTER TABLE web_sessions ADD COLUMN subject TEXT;
ALTER TABLE web_sessions ADD COLUMN name TEXT;
ALTER TABLE web_sessions ADD COLUMN role TEXT;
ALTER TABLE web_sessions ADD COLUMN expires_at BIGINT;

-- Sign-ins at the identity provider that have opened a session. Each may open one.
CREATE TABLE sign_in_attempts (
  digest TEXT PRIMARY KEY,
  expires_at BIGINT NOT NULL
) {clustered};

CREATE INDEX sign_in_attempts_by_expiry ON sign_in_attempts (expires_at);
