-- Users of tenants, and when credentials were last used.

-- name: user
-- A user.
SELECT {columns users u} FROM users u WHERE u.tenant = :tenant AND u.id = :id;

-- name: user_by_subject
-- A user by its id at the identity provider.
SELECT {columns users u} FROM users u WHERE u.tenant = :tenant AND u.subject = :subject;

-- name: list_users
-- A page of the users of a tenant, in order.
SELECT {columns users u} FROM users u WHERE u.tenant = :tenant AND u.id > :after ORDER BY u.id LIMIT :limit;

-- name: lock_user
-- Lock and return a user.
SELECT {columns users u} FROM users u WHERE u.tenant = :tenant AND u.id = :id {lock u};

-- name: update_user
-- Replace what can be changed of a user, if it still has this version.
UPDATE users SET name = :name, email = :email, role = :role, state = :state, subject = :subject,
  updated_at = :updated_at, version = version + 1
WHERE tenant = :tenant AND id = :id AND version = :version RETURNING version;

-- name: delete_user
-- Delete a user.
DELETE FROM users WHERE tenant = :tenant AND id = :id RETURNING id;

-- name: keys_of_user
-- The keys of a user that were not revoked.
SELECT k.id FROM keys k WHERE k.tenant = :tenant AND k.user_id = :id AND k.revoked_at IS NULL ORDER BY k.id;

-- name: note_key_uses
-- Store when keys were last used.
UPDATE keys SET last_used_at = b.at FROM {batch b: id text, at bigint}
WHERE keys.id = b.id AND (keys.last_used_at IS NULL OR keys.last_used_at < b.at);

-- name: note_users_seen
-- Store when users were last seen.
UPDATE users SET last_seen_at = b.at FROM {batch b: tenant text, id text, at bigint}
WHERE users.tenant = b.tenant AND users.id = b.id AND (users.last_seen_at IS NULL OR users.last_seen_at < b.at);
