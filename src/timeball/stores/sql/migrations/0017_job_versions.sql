-- Which requests made the versions of a job, and when.
-- works with: 5

-- The first version with this spec, when a request made it, and the name of its key. NULL: a server of an earlier version
-- wrote the row, or (made_by) the job was created with this spec.
ALTER TABLE job_versions ADD COLUMN since_version BIGINT;
ALTER TABLE job_versions ADD COLUMN made_at BIGINT;
ALTER TABLE job_versions ADD COLUMN made_by TEXT;
-- The name of the key of the request that replaced the spec.
ALTER TABLE job_versions ADD COLUMN replaced_by TEXT;
