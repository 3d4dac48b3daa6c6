-- What a key has stored is counted.
CREATE INDEX documents_of_owner ON documents (owner) WHERE owner <> '';
