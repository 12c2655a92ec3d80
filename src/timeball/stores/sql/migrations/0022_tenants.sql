-- Tenants with their limits, users, and API keys with scopes, an expiry and a user.
-- works with: 5

CREATE TABLE tenants (
  id {id} PRIMARY KEY,
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  -- 'active', or 'deleting' until everything that the tenant owns is deleted.
  state TEXT NOT NULL,
  limits TEXT NOT NULL,
  version BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
) {clustered};

-- The default tenant, and every tenant that rows of earlier versions name.
INSERT INTO tenants (id, name, description, state, limits, version, created_at, updated_at)
SELECT known.id, '', '', 'active', '{}', 1, {now}, {now} FROM (
  SELECT 'default' AS id
  UNION SELECT tenant FROM jobs
  UNION SELECT tenant FROM keys
  UNION SELECT tenant FROM tasks
  UNION SELECT tenant FROM calendars
) known;

CREATE TABLE users (
  tenant {id} NOT NULL,
  id {id} NOT NULL,
  name TEXT NOT NULL,
  -- For notifications.
  email TEXT NOT NULL,
  role TEXT NOT NULL,
  -- 'active' or 'disabled'.
  state TEXT NOT NULL,
  -- The id of the user at the identity provider.
  subject TEXT,
  version BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  last_seen_at BIGINT,
  PRIMARY KEY (tenant, id)
) {clustered};

CREATE UNIQUE INDEX users_by_subject ON users (tenant, subject) WHERE subject IS NOT NULL;

-- JSON lists; NULL: all permissions of the role, any labels, and for worker keys all tenants.
ALTER TABLE keys ADD COLUMN scopes TEXT;
ALTER TABLE keys ADD COLUMN labels TEXT;
ALTER TABLE keys ADD COLUMN tenants TEXT;
ALTER TABLE keys ADD COLUMN user_id TEXT;
ALTER TABLE keys ADD COLUMN expires_at BIGINT;
-- At most a minute before the last use.
ALTER TABLE keys ADD COLUMN last_used_at BIGINT;
-- The id of the key that this one was made from by a rotation.
ALTER TABLE keys ADD COLUMN replaces TEXT;

CREATE INDEX keys_of_tenant ON keys (tenant, id);
