-- Whose key opened a session. Nothing: a server that did not know this yet.
-- works with: 5

ALTER TABLE workers ADD COLUMN key_id {id};
