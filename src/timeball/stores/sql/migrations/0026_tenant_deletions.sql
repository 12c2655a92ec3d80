-- Tenants that are being deleted.
-- works with: 5

CREATE TABLE tenant_deletions (
  tenant {id} PRIMARY KEY,
  requested_at BIGINT NOT NULL,
  -- The credential that asked for it.
  actor_kind TEXT NOT NULL,
  actor_id TEXT NOT NULL,
  actor_name TEXT NOT NULL,
  user_id TEXT NOT NULL,
  address TEXT NOT NULL,
  -- 'runs' until no run is alive, then 'objects', then 'rows'.
  phase TEXT NOT NULL,
  -- The folder of the object storage that was counted last.
  place TEXT NOT NULL,
  -- What was deleted, by kind, as JSON.
  counts TEXT NOT NULL
) {clustered};
