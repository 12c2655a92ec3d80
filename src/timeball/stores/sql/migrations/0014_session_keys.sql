-- The API key that opened a session. NULL: an older server opened it.
-- works with: 5

ALTER TABLE workers ADD COLUMN key_id {id};
