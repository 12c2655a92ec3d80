-- Quotas of stored bytes.
-- works with: 5

-- The bytes that are stored for the tenant: counted by each transaction that stores some, and corrected by recounts. It
-- is kept only while the tenant has such a quota.
ALTER TABLE quota_use ADD COLUMN stored_bytes BIGINT NOT NULL DEFAULT 0;
