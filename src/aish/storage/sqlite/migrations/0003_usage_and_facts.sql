-- What model calls cost. A row with `expires_ms` is a reservation: the most a call under way may cost.

CREATE TABLE usage (
  id                 TEXT PRIMARY KEY,
  at_ms              INTEGER NOT NULL,
  expires_ms         INTEGER NOT NULL DEFAULT 0, -- 0: settled
  session            TEXT NOT NULL,
  model              TEXT NOT NULL,
  category           TEXT NOT NULL,
  prompt_tokens      INTEGER NOT NULL DEFAULT 0,
  completion_tokens  INTEGER NOT NULL DEFAULT 0,
  cost               REAL,                       -- NULL: unknown
  estimate           INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE INDEX usage_by_time ON usage (at_ms);
CREATE INDEX usage_of_session ON usage (session, at_ms) WHERE session <> '';
CREATE INDEX usage_reserved ON usage (expires_ms) WHERE expires_ms > 0;

-- What outlives a session. `folded` is the text and tags as search compares them.
CREATE TABLE facts (
  rowid       INTEGER PRIMARY KEY,
  id          TEXT NOT NULL UNIQUE,
  kind        TEXT NOT NULL,
  text        TEXT NOT NULL,
  tags        TEXT NOT NULL, -- JSON
  source      TEXT NOT NULL,
  created_ms  INTEGER NOT NULL,
  updated_ms  INTEGER NOT NULL,
  folded      TEXT NOT NULL
);

CREATE INDEX facts_newest ON facts (updated_ms DESC, id DESC);

CREATE VIRTUAL TABLE facts_index USING fts5 (folded, content = 'facts', content_rowid = 'rowid', tokenize = 'unicode61');

CREATE TRIGGER facts_added AFTER INSERT ON facts BEGIN
  INSERT INTO facts_index (rowid, folded) VALUES (new.rowid, new.folded);
END;

CREATE TRIGGER facts_removed AFTER DELETE ON facts BEGIN
  INSERT INTO facts_index (facts_index, rowid, folded) VALUES ('delete', old.rowid, old.folded);
END;

CREATE TRIGGER facts_changed AFTER UPDATE ON facts BEGIN
  INSERT INTO facts_index (facts_index, rowid, folded) VALUES ('delete', old.rowid, old.folded);
  INSERT INTO facts_index (rowid, folded) VALUES (new.rowid, new.folded);
END;
