-- Workers that bound some of their runs by pools of slots.
-- works with: 5

-- The pools as JSON: names, numbers of slots, task kinds and functions. NULL: only the slots bound the runs.
ALTER TABLE workers ADD COLUMN pools TEXT;
