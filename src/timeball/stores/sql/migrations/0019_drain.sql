-- Workers that were ordered to drain: they get no new runs.
-- works with: 5

-- When the order was given. NULL: there is none.
ALTER TABLE workers ADD COLUMN draining_since BIGINT;
