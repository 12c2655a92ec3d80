-- Admin keys that come from the settings of servers: a changed key replaces the one before.
-- works with: 5

-- 'configured': from TIMEBALL_ADMIN_KEY; 'generated': from admin.key in a data folder; NULL: created or revoked by a user.
ALTER TABLE keys ADD COLUMN bootstrap TEXT;
-- Since when it is the newest key that servers are started with.
ALTER TABLE keys ADD COLUMN bootstrap_at BIGINT;
