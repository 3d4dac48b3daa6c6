-- What faces and the engine keep under names of their own: stored responses, held results, approvals, keys.

CREATE TABLE documents (
  kind        TEXT NOT NULL,
  id          TEXT NOT NULL,
  owner       TEXT NOT NULL,
  created_ms  INTEGER NOT NULL,
  expires_ms  INTEGER NOT NULL, -- 0: never
  body        BLOB NOT NULL,
  PRIMARY KEY (kind, id)
) WITHOUT ROWID;

CREATE INDEX documents_newest ON documents (kind, created_ms DESC);
CREATE INDEX documents_expiring ON documents (expires_ms) WHERE expires_ms > 0;

-- Turns of no session are found by age when they are thrown away.
CREATE INDEX turns_by_age ON turns (session, started_ms);
