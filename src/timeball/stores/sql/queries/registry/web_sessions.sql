-- Web sessions and the tokens of one-time links.

-- name: add_sign_in_token
-- Insert a token, if its key is valid. The same token again changes nothing.
INSERT INTO sign_in_tokens (digest, key_id, expires_at)
SELECT :digest, k.id, {now} + :lasts FROM keys k JOIN tenants t ON t.id = k.tenant AND t.state = {tenant.active}
WHERE k.id = :key_id AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > {now})
ON CONFLICT (digest) DO UPDATE SET key_id = sign_in_tokens.key_id
RETURNING expires_at;

-- name: drop_expired_tokens
-- Delete some tokens that have expired.
DELETE FROM sign_in_tokens WHERE digest IN (
  SELECT t.digest FROM sign_in_tokens t WHERE t.expires_at <= {now} ORDER BY t.expires_at LIMIT :limit
);

-- name: sign_in_token
-- The id of the key of a sign-in token, if the token has not expired and the key was not revoked.
SELECT t.key_id FROM sign_in_tokens t JOIN keys k ON k.id = t.key_id
WHERE t.digest = :digest AND t.expires_at > {now} AND k.revoked_at IS NULL
  AND (k.expires_at IS NULL OR k.expires_at > {now});

-- name: take_sign_in_token
-- Delete a token that has not expired, and return its key. Only one transaction can get it.
DELETE FROM sign_in_tokens WHERE digest = :digest AND expires_at > {now} RETURNING key_id;

-- name: open_web_session
-- Insert a session, if its key is valid. The same session again changes nothing.
INSERT INTO web_sessions (id, digest, tenant, key_id, created_at, last_used_at)
SELECT :id, :digest, k.tenant, k.id, {now}, {now}
FROM keys k JOIN tenants t ON t.id = k.tenant AND t.state = {tenant.active}
LEFT JOIN users u ON u.tenant = k.tenant AND u.id = k.user_id
WHERE k.id = :key_id AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > {now})
  AND (k.user_id IS NULL OR u.state = {user.active})
ON CONFLICT DO NOTHING;

-- name: drop_unused_sessions
-- Delete some sessions that ended because they were not used.
DELETE FROM web_sessions WHERE id IN (
  SELECT s.id FROM web_sessions s WHERE s.last_used_at <= {now} - :idle ORDER BY s.last_used_at LIMIT :limit
);

-- name: drop_surplus_sessions
-- Delete the sessions of a key, or of a user of the identity provider, except the :kept ones that were used last.
DELETE FROM web_sessions WHERE id IN (
  SELECT s.id FROM web_sessions s WHERE s.key_id = :key_id
  ORDER BY s.last_used_at DESC, s.id DESC LIMIT 1000 OFFSET :kept
);

-- name: drop_expired_attempts
-- Delete some sign-ins at the identity provider that can be finished no more.
DELETE FROM sign_in_attempts WHERE digest IN (
  SELECT a.digest FROM sign_in_attempts a WHERE a.expires_at <= {now} ORDER BY a.expires_at LIMIT :limit
);

-- name: finish_sign_in_attempt
-- Note that a sign-in at the identity provider is finished. Only one transaction can do so.
INSERT INTO sign_in_attempts (digest, expires_at) VALUES (:digest, {now} + :lasts)
ON CONFLICT DO NOTHING RETURNING digest;

-- name: open_user_session
-- Insert a session of a user of the identity provider, unless that user is disabled.
INSERT INTO web_sessions (
  id, digest, tenant, key_id, created_at, last_used_at, issuer, subject, name, role, expires_at
)
SELECT :id, :digest, t.id, :opener_id, {now}, {now}, :issuer, :subject, :name, :role, {now} + :lasts
FROM tenants t LEFT JOIN users u ON u.tenant = t.id AND u.subject = :subject
WHERE t.id = :tenant AND t.state = {tenant.active} AND (u.id IS NULL OR u.state = {user.active})
ON CONFLICT DO NOTHING;

-- name: session_by_digest
-- A session that has not ended, if its key or its user is valid, with both; and whether its use has to be stored.
SELECT s.id, s.digest, s.created_at, s.last_used_at, CASE WHEN s.last_used_at <= {now} - :interval THEN 1 ELSE 0 END,
  s.expires_at, s.key_id, s.tenant, s.issuer, s.subject, s.name, s.role, a.id, a.role, {columns keys k}, u.role
FROM web_sessions s JOIN tenants t ON t.id = s.tenant AND t.state = {tenant.active}
LEFT JOIN keys k ON k.id = s.key_id LEFT JOIN users u ON u.tenant = k.tenant AND u.id = k.user_id
LEFT JOIN users a ON a.tenant = s.tenant AND a.subject = s.subject
WHERE s.digest = :digest AND s.last_used_at > {now} - :idle AND s.created_at > {now} - :lifetime
  AND CASE WHEN s.subject IS NULL
    THEN k.id IS NOT NULL AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > {now})
      AND (k.user_id IS NULL OR u.state = {user.active})
    ELSE s.expires_at > {now} AND (a.id IS NULL OR a.state = {user.active}) END;

-- name: use_session
-- Store the use of a session, unless another server did so a moment ago.
UPDATE web_sessions SET last_used_at = {now} WHERE digest = :digest AND last_used_at <= {now} - :interval RETURNING id;

-- name: list_sessions
-- A page of the sessions of a tenant that have not ended, newest first.
SELECT s.id, s.digest, s.created_at, s.last_used_at, 0, s.expires_at, s.key_id, s.tenant, s.issuer, s.subject, s.name,
  s.role, a.id, a.role, {columns keys k}, u.role
FROM web_sessions s LEFT JOIN keys k ON k.id = s.key_id
LEFT JOIN users u ON u.tenant = k.tenant AND u.id = k.user_id
LEFT JOIN users a ON a.tenant = s.tenant AND a.subject = s.subject
WHERE s.tenant = :tenant AND s.id < :before AND (:key_id = '' OR s.key_id = :key_id)
  AND s.last_used_at > {now} - :idle AND s.created_at > {now} - :lifetime
  AND CASE WHEN s.subject IS NULL
    THEN k.id IS NOT NULL AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > {now})
    ELSE s.expires_at > {now} END
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
