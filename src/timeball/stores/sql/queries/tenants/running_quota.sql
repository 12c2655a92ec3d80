-- Quotas of running runs of tenants.

-- name: lock_tenants
-- Lock tenants, except those that another transaction has locked.
SELECT t.id FROM {batch b: tenant text} JOIN tenants t ON t.id = b.tenant ORDER BY t.id {skip_locked_of t};

-- name: running_of_tenants
-- The number of running attempts of tenants. They are found by the index of running runs.
SELECT r.tenant, COUNT(*) FROM runs r
WHERE r.state = {state.running} AND r.session > '' AND r.session <> {session.weaver} AND {unindexed_text r.tenant} {in b: text}
GROUP BY r.tenant;
