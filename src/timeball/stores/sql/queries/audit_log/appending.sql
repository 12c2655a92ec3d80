-- The end of the audit log's chains.

-- name: lock_audit_head
-- Lock the end of a chain, and return it with the time of the store, and 1 if its tenant is being deleted.
SELECT h.seq, h.hash, {now}, h.closing FROM audit_heads h WHERE h.chain = :chain {keep h};

-- name: move_audit_head
-- Move the end of a chain to its next entries.
UPDATE audit_heads SET seq = :seq, hash = :hash WHERE chain = :chain AND seq = :known RETURNING seq;
