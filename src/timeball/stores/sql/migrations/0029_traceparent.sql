-- Jobs whose runs continue a trace of the client that submitted them.
-- works with: 5

-- The context as in the header `traceparent`. NULL: each run of the job begins a trace of its own.
ALTER TABLE jobs ADD COLUMN traceparent TEXT;
