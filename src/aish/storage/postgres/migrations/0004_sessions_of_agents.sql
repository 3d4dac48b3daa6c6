-- Agents have sessions of their own, which belong to a turn or a session.
ALTER TABLE sessions ADD COLUMN parent TEXT NOT NULL DEFAULT '';
CREATE INDEX sessions_of_parent ON sessions (parent) WHERE parent <> '';
