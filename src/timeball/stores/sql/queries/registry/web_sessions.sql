-- Web sessions and the tokens of one-time links.

-- name: add_sign_in_token
-- Insert a token, if its key is valid. The same token again changes nothing.
INSERT INTO sign_in_tokens (digest, key_id, expires_at)
SELECT :digest, k.id, {now} + :lasts FROM keys k WHERE k.id = :key_id AND k.revoked_at IS NULL
ON CONFLICT (digest) DO UPDATE SET key_id = sign_in_tokens.key_id
RETURNING expires_at;

-- name: drop_expired_tokens
-- Delete some tokens that have expired.
DELETE FROM sign_in_tokens WHERE digest IN (
  SELECT t.digest FROM sign_in_tokens t WHERE t.expires_at <= {now} ORDER BY t.expires_at LIMIT :limit
);

-- name: sign_in_token
-- A token that can be used now.
SELECT t.key_id FROM sign_in_tokens t JOIN keys k ON k.id = t.key_id
WHERE t.digest = :digest AND t.expires_at > {now} AND k.revoked_at IS NULL;

-- name: take_sign_in_token
-- Delete a token that has not expired, and return its key. Only one transaction can get it.
DELETE FROM sign_in_tokens WHERE digest = :digest AND expires_at > {now} RETURNING key_id;

-- name: open_web_session
-- Insert a session, if its key is valid. The same session again changes nothing.
INSERT INTO web_sessions (id, digest, tenant, key_id, created_at, last_used_at)
SELECT :id, :digest, k.tenant, k.id, {now}, {now} FROM keys k WHERE k.id = :key_id AND k.revoked_at IS NULL
ON CONFLICT DO NOTHING;

-- name: drop_unused_sessions
-- Delete some sessions that ended because they were not used.
DELETE FROM web_sessions WHERE id IN (
  SELECT s.id FROM web_sessions s WHERE s.last_used_at <= {now} - :idle ORDER BY s.last_used_at LIMIT :limit
);

-- name: drop_surplus_sessions
-- Delete the sessions of a key except the :kept ones that were used last.
DELETE FROM web_sessions WHERE id IN (
  SELECT s.id FROM web_sessions s WHERE s.key_id = :key_id
  ORDER BY s.last_used_at DESC, s.id DESC LIMIT 1000 OFFSET :kept
);

-- name: session_by_digest
-- A session that has not ended, with its key, unless that was revoked; and whether its use has to be stored.
SELECT s.id, s.digest, s.created_at, s.last_used_at,
  k.id, k.tenant, k.name, k.role, k.digest, k.created_at, k.revoked_at,
  CASE WHEN s.last_used_at <= {now} - :interval THEN 1 ELSE 0 END
FROM web_sessions s JOIN keys k ON k.id = s.key_id
WHERE s.digest = :digest AND k.revoked_at IS NULL
  AND s.last_used_at > {now} - :idle AND s.created_at > {now} - :lifetime;

-- name: use_session
-- Store the use of a session, unless another server did so a moment ago.
UPDATE web_sessions SET last_used_at = {now} WHERE digest = :digest AND last_used_at <= {now} - :interval RETURNING id;

-- name: list_sessions
-- A page of the sessions of a tenant that have not ended, newest first.
SELECT s.id, s.digest, s.created_at, s.last_used_at,
  k.id, k.tenant, k.name, k.role, k.digest, k.created_at, k.revoked_at
FROM web_sessions s JOIN keys k ON k.id = s.key_id
WHERE s.tenant = :tenant AND s.id < :before AND k.revoked_at IS NULL AND (:key_id = '' OR s.key_id = :key_id)
  AND s.last_used_at > {now} - :idle AND s.created_at > {now} - :lifetime
ORDER BY s.id DESC LIMIT :limit;

-- name: revoke_session
-- Delete a session of a tenant.
DELETE FROM web_sessions WHERE id = :id AND tenant = :tenant AND (:key_id = '' OR key_id = :key_id) RETURNING digest;

-- name: revoke_sessions_of_key
-- Delete the web sessions of a key.
DELETE FROM web_sessions WHERE key_id = :id;

-- name: drop_tokens_of_key
-- Delete the tokens of a key.
DELETE FROM sign_in_tokens WHERE key_id = :id;
