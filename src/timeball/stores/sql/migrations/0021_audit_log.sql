-- The audit log: one chain of entries per tenant, and one of the system.
-- works with: 5

CREATE TABLE audit_log (
  chain {id} NOT NULL,
  seq BIGINT NOT NULL,
  at BIGINT NOT NULL,
  actor_kind TEXT NOT NULL,
  actor_id TEXT NOT NULL,
  actor_name TEXT NOT NULL,
  user_id TEXT NOT NULL,
  address TEXT NOT NULL,
  action TEXT NOT NULL,
  resource TEXT NOT NULL,
  resource_id TEXT NOT NULL,
  old_values TEXT,
  new_values TEXT,
  previous TEXT NOT NULL,
  hash TEXT NOT NULL,
  PRIMARY KEY (chain, seq)
) {clustered};

CREATE INDEX audit_log_by_resource ON audit_log (chain, resource_id, seq);
CREATE INDEX audit_log_by_time ON audit_log (chain, at, seq);

-- The last entry of each chain. A transaction locks it to append the next one.
CREATE TABLE audit_heads (
  chain {id} PRIMARY KEY,
  seq BIGINT NOT NULL,
  hash TEXT NOT NULL,
  -- 1 while the chain is deleted with its tenant.
  closing BIGINT NOT NULL DEFAULT 0
) {clustered};

-- The database refuses changes of entries, also those that other programs than Timeball ask for.
-- only: sqlite
CREATE TRIGGER audit_log_without_updates BEFORE UPDATE ON audit_log
BEGIN SELECT RAISE(ABORT, 'entries of the audit log are never changed'); END;

-- only: sqlite
CREATE TRIGGER audit_log_without_deletes BEFORE DELETE ON audit_log
WHEN NOT EXISTS (SELECT 1 FROM audit_heads h WHERE h.chain = OLD.chain AND h.closing = 1)
BEGIN SELECT RAISE(ABORT, 'entries of the audit log are only deleted with their tenant'); END;

-- only: postgres
CREATE FUNCTION audit_log_is_append_only() RETURNS trigger LANGUAGE plpgsql AS '
BEGIN
  IF TG_OP = ''DELETE'' AND EXISTS (SELECT 1 FROM audit_heads h WHERE h.chain = OLD.chain AND h.closing = 1) THEN RETURN OLD; END IF; RAISE EXCEPTION ''entries of the audit log are never changed, and only deleted with their tenant''; END';

-- only: postgres
CREATE TRIGGER audit_log_is_append_only BEFORE UPDATE OR DELETE ON audit_log
FOR EACH ROW EXECUTE FUNCTION audit_log_is_append_only();

-- The id of the credential with which the job was submitted. NULL: a server of an earlier version wrote the row.
ALTER TABLE jobs ADD COLUMN created_by TEXT;
