-- Entries of the audit log. Numbers and sizes are read first, and then the entries that fit on a page.

-- name: list_audit_log
-- Numbers and sizes of entries of a chain, newest first.
SELECT l.seq, COALESCE({size l.old_values}, 0) + COALESCE({size l.new_values}, 0) FROM audit_log l
WHERE l.chain = :chain AND l.seq < :before AND l.seq >= :floor {conditions}
ORDER BY l.seq DESC LIMIT :limit;

-- name: audit_range
-- The entry of a chain with the first time in a range, the one with the last, and the last entry of all. The times of a
-- chain grow with its numbers, except for entries of changes that waited for each other.
SELECT
  (SELECT l.seq FROM audit_log l WHERE l.chain = :chain AND l.at >= :since ORDER BY l.at, l.seq LIMIT 1),
  (SELECT l.seq FROM audit_log l WHERE l.chain = :chain AND l.at < :until ORDER BY l.at DESC, l.seq DESC LIMIT 1),
  (SELECT MAX(l.seq) FROM audit_log l WHERE l.chain = :chain);

-- name: audit_entries_after
-- Numbers and sizes of entries of a chain after a number, in order.
SELECT l.seq, COALESCE({size l.old_values}, 0) + COALESCE({size l.new_values}, 0) FROM audit_log l
WHERE l.chain = :chain AND l.seq > :after ORDER BY l.seq LIMIT :limit;

-- name: audit_entries_by_number
-- Entries of a chain by their numbers, in order.
SELECT {columns audit_log l} FROM audit_log l
WHERE l.chain = :chain AND l.seq {in b: bigint} ORDER BY l.seq;

-- name: audit_head
-- The end of a chain.
SELECT h.chain, h.seq, h.hash FROM audit_heads h WHERE h.chain = :chain;

-- name: audit_end
-- The end of a chain, and the number of its last entry, at one instant.
SELECT h.seq, h.hash, e.last FROM (SELECT COALESCE(MAX(l.seq), 0) AS last FROM audit_log l WHERE l.chain = :chain) e
LEFT JOIN audit_heads h ON h.chain = :chain;

-- name: audit_chains
-- All chains, also those of which only entries or only the end exist.
SELECT h.chain FROM audit_heads h UNION SELECT DISTINCT l.chain FROM audit_log l ORDER BY 1;
