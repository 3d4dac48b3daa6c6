-- All of it at once: what SQLite came to in several files. Later files add; a file that was released is never edited.
-- Names are compared byte by byte, as SQLite does and as indexes like it: COLLATE "C".

CREATE TABLE sessions (
  id          TEXT COLLATE "C" PRIMARY KEY,
  created_ms  BIGINT NOT NULL,
  updated_ms  BIGINT NOT NULL,
  title       TEXT NOT NULL,
  folded      TEXT NOT NULL, -- the title as search compares it
  model       TEXT NOT NULL,
  turns       BIGINT NOT NULL
);

CREATE INDEX sessions_newest ON sessions (updated_ms DESC, id DESC);

CREATE TABLE turns (
  id           TEXT COLLATE "C" PRIMARY KEY,
  session      TEXT COLLATE "C" NOT NULL,
  number       BIGINT NOT NULL, -- 0 where there is no session
  model        TEXT NOT NULL,
  started_ms   BIGINT NOT NULL,
  owner        TEXT NOT NULL, -- the process that runs it
  state        TEXT NOT NULL DEFAULT 'running', -- or the reason it ended
  finished_ms  BIGINT,
  usage        BYTEA,
  folded       TEXT NOT NULL,
  input        BYTEA NOT NULL, -- JSON
  messages     BYTEA           -- JSON
);

CREATE UNIQUE INDEX turns_of_session ON turns (session, number) WHERE session <> '';
CREATE INDEX turns_by_age ON turns (session, started_ms);

-- Append-only. One row holds a run of newline-terminated JSON lines, exactly as they were given. `cursor` is the number
-- of the transaction and, in its lowest 16 bits, the row's place in it: see feed.py.
CREATE TABLE events (
  cursor     BIGINT PRIMARY KEY,
  turn       TEXT COLLATE "C" NOT NULL,
  first_seq  BIGINT NOT NULL,
  last_seq   BIGINT NOT NULL,
  body       BYTEA NOT NULL
);

CREATE INDEX events_of_turn ON events (turn, first_seq);

-- What faces and the engine keep under names of their own: stored responses, held results, approvals, keys.
CREATE TABLE documents (
  kind        TEXT COLLATE "C" NOT NULL,
  id          TEXT COLLATE "C" NOT NULL,
  owner       TEXT NOT NULL,
  created_ms  BIGINT NOT NULL,
  expires_ms  BIGINT NOT NULL, -- 0: never
  body        BYTEA NOT NULL,
  PRIMARY KEY (kind, id)
);

CREATE INDEX documents_newest ON documents (kind, created_ms DESC, id DESC);
CREATE INDEX documents_expiring ON documents (expires_ms) WHERE expires_ms > 0;

-- What model calls cost. A row with `expires_ms` is a reservation: the most a call under way may cost.
CREATE TABLE usage (
  id                 TEXT COLLATE "C" PRIMARY KEY,
  at_ms              BIGINT NOT NULL,
  expires_ms         BIGINT NOT NULL DEFAULT 0, -- 0: settled
  session            TEXT COLLATE "C" NOT NULL,
  model              TEXT COLLATE "C" NOT NULL,
  category           TEXT COLLATE "C" NOT NULL,
  prompt_tokens      BIGINT NOT NULL DEFAULT 0,
  completion_tokens  BIGINT NOT NULL DEFAULT 0,
  cost               DOUBLE PRECISION, -- NULL: unknown
  estimate           BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX usage_by_time ON usage (at_ms);
CREATE INDEX usage_of_session ON usage (session, at_ms) WHERE session <> '';
CREATE INDEX usage_reserved ON usage (expires_ms) WHERE expires_ms > 0;

-- What outlives a session. `words` are those of text and tags as search compares them.
CREATE TABLE facts (
  id          TEXT COLLATE "C" PRIMARY KEY,
  kind        TEXT NOT NULL,
  text        TEXT NOT NULL,
  tags        TEXT NOT NULL, -- JSON
  source      TEXT NOT NULL,
  created_ms  BIGINT NOT NULL,
  updated_ms  BIGINT NOT NULL,
  words       TSVECTOR NOT NULL
);

CREATE INDEX facts_newest ON facts (updated_ms DESC, id DESC);
CREATE INDEX facts_words ON facts USING gin (words);

-- Work that outlives its process. Every write to a run carries its fence; one that is older than the row's fails.
CREATE TABLE runs (
  id          TEXT COLLATE "C" PRIMARY KEY,
  kind        TEXT NOT NULL,
  session     TEXT COLLATE "C" NOT NULL,
  goal        TEXT NOT NULL,
  state       TEXT NOT NULL,
  body        BYTEA NOT NULL, -- JSON
  reason      TEXT NOT NULL,
  created_ms  BIGINT NOT NULL,
  updated_ms  BIGINT NOT NULL,
  owner       TEXT NOT NULL, -- '': nobody works on it
  fence       BIGINT NOT NULL,
  lease_ms    BIGINT NOT NULL -- until when the owner's word holds, by this database's clock
);

CREATE INDEX runs_newest ON runs (created_ms DESC, id DESC);
CREATE INDEX runs_of_session ON runs (session);

CREATE TABLE steps (
  run          TEXT COLLATE "C" NOT NULL,
  number       BIGINT NOT NULL,
  call         TEXT NOT NULL,
  tool         TEXT NOT NULL,
  effect       TEXT NOT NULL,
  state        TEXT NOT NULL,
  key          TEXT NOT NULL,
  digest       TEXT NOT NULL,
  arguments    BYTEA NOT NULL, -- JSON
  witness      TEXT NOT NULL,
  status       TEXT NOT NULL,
  outcome      TEXT NOT NULL,
  started_ms   BIGINT NOT NULL,
  finished_ms  BIGINT NOT NULL,
  PRIMARY KEY (run, number)
);

-- One row for each process that writes, with the number of its last group: a process that lost its connection while it
-- was told of a commit looks here whether it happened. Changed all the time, so there is room for it to change in place.
CREATE TABLE writers (
  id      TEXT COLLATE "C" PRIMARY KEY,
  number  BIGINT NOT NULL,
  seen    TIMESTAMPTZ NOT NULL DEFAULT now()
) WITH (fillfactor = 20);
