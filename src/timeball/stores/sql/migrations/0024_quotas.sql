-- Quotas of tenants.
-- works with: 5

-- One row for each tenant with quotas. A transaction that counts or changes what the tenant uses locks the row.
CREATE TABLE quota_use (
  tenant {id} PRIMARY KEY,
  -- JSON: the numbers of runs that begin on each day from the last change on, by days since 1970-01-01.
  runs_of_days TEXT NOT NULL
) {clustered};
