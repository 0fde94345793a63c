-- How accounts sign in besides their slots: second factors, passkeys, identities of providers. See src/sql/factors.rs and identities.rs.

CREATE TABLE totp (
    account_id BIGINT PRIMARY KEY REFERENCES account (id) ON DELETE CASCADE,
    sealed     BYTEA NOT NULL,
    last_step  BIGINT NOT NULL,
    created_ms BIGINT NOT NULL
);

CREATE TABLE passkey (
    id         BIGINT PRIMARY KEY,
    account_id BIGINT NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    credential BYTEA NOT NULL UNIQUE,
    public_key BYTEA NOT NULL, -- COSE
    label      TEXT COLLATE "C" NOT NULL,
    sealed     BYTEA,
    counter    BIGINT NOT NULL CHECK (counter >= 0),
    created_ms BIGINT NOT NULL,
    used_ms    BIGINT
);
CREATE INDEX passkey_account ON passkey (account_id);

CREATE TABLE used_ticket (
    id         BYTEA PRIMARY KEY,
    expires_ms BIGINT NOT NULL
);
CREATE INDEX used_ticket_expiry ON used_ticket (expires_ms);

CREATE TABLE drive_key (
    name TEXT COLLATE "C" PRIMARY KEY,
    key  BYTEA NOT NULL
);

CREATE TABLE identity (
    id         BIGINT PRIMARY KEY,
    account_id BIGINT NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    issuer     TEXT COLLATE "C" NOT NULL,
    subject    TEXT COLLATE "C" NOT NULL,
    label      TEXT COLLATE "C" NOT NULL,
    created_ms BIGINT NOT NULL,
    used_ms    BIGINT,
    UNIQUE (issuer, subject)
);
CREATE INDEX identity_account ON identity (account_id);

CREATE TABLE space_grant (
    account_id BIGINT NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    space_id   BIGINT NOT NULL REFERENCES space (id) ON DELETE CASCADE,
    issuer     TEXT COLLATE "C" NOT NULL,
    role       BIGINT NOT NULL CHECK (role BETWEEN 0 AND 2),
    made       BIGINT NOT NULL,
    PRIMARY KEY (account_id, space_id)
);
CREATE INDEX space_grant_space ON space_grant (space_id);
