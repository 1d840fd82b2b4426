-- Keyrings that offline roots signed. Who reads them checks the signatures and takes the highest version; what stands here
-- proves nothing by itself.
CREATE TABLE keyring (
    version  INTEGER PRIMARY KEY,
    envelope BLOB NOT NULL
);
