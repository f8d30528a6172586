-- What the gateway keeps: accounts, signing keys, plugins, prompts. Its own schema, apart from the source: the gateway
-- queries nothing else. In the one history of migrations, so that one command and one number say where a database is.

CREATE SCHEMA IF NOT EXISTS gateway;

-- password_hash: argon2id in its own text form; NULL: no password, so no sign-in with one.
CREATE TABLE gateway.users (
    id            text PRIMARY KEY CHECK (char_length(id) BETWEEN 1 AND 255),
    username      text NOT NULL CHECK (char_length(username) BETWEEN 1 AND 100),
    display_name  text NOT NULL DEFAULT '',
    password_hash text,
    is_admin      boolean NOT NULL DEFAULT false,
    disabled_at   timestamptz,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE UNIQUE INDEX users_username ON gateway.users (lower(username));

-- token_hash: SHA-256 of the cookie's value, which is stored nowhere. id names the session where it must be told apart.
CREATE TABLE gateway.login_sessions (
    id         text PRIMARY KEY,
    user_id    text NOT NULL REFERENCES gateway.users (id) ON DELETE CASCADE,
    token_hash bytea NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL
);
CREATE INDEX login_sessions_user ON gateway.login_sessions (user_id);
CREATE INDEX login_sessions_expiry ON gateway.login_sessions (expires_at);

-- id: the eight hexadecimal digits in the token's own text. secret_hash: SHA-256 of the part behind them.
CREATE TABLE gateway.access_tokens (
    id           text PRIMARY KEY,
    user_id      text NOT NULL REFERENCES gateway.users (id) ON DELETE CASCADE,
    name         text NOT NULL DEFAULT '',
    secret_hash  bytea NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at   timestamptz,
    last_used_at timestamptz
);
CREATE INDEX access_tokens_user ON gateway.access_tokens (user_id);

-- Failed sign-ins within the window of the login limit, by who tried and from where: shared by all gateways.
CREATE UNLOGGED TABLE gateway.login_attempts (
    subject      text NOT NULL,
    attempted_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX login_attempts_subject ON gateway.login_attempts (subject, attempted_at);

-- Keys that sign bindings and cursors. The newest signs; an older one verifies until what it signed has expired.
CREATE TABLE gateway.token_keys (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    secret     bytea NOT NULL CHECK (octet_length(secret) = 32),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- hash: SHA-256 of the archive in hex, which names it in every cache.
CREATE TABLE gateway.plugin_packages (
    hash       text PRIMARY KEY,
    plugin_id  text NOT NULL,
    version    text NOT NULL,
    archive    bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
ALTER TABLE gateway.plugin_packages ALTER COLUMN archive SET STORAGE EXTERNAL;

-- installed_at is the generation: another installation of the same plugin is another generation.
CREATE TABLE gateway.plugins (
    id            text PRIMARY KEY CHECK (char_length(id) BETWEEN 1 AND 255),
    version       text NOT NULL,
    package_hash  text NOT NULL REFERENCES gateway.plugin_packages (hash),
    manifest      jsonb NOT NULL,
    status        text NOT NULL CHECK (status IN ('registered', 'active', 'disabled', 'error')),
    signed        boolean NOT NULL DEFAULT false,
    auto_update   boolean NOT NULL DEFAULT false,
    config        jsonb NOT NULL DEFAULT '{}',
    installed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_error    text,
    last_error_at timestamptz
);

-- value: json, not jsonb: the text comes back as it was put.
CREATE TABLE gateway.plugin_user_state (
    plugin_id  text NOT NULL REFERENCES gateway.plugins (id) ON DELETE CASCADE,
    user_id    text NOT NULL,
    scope      text NOT NULL CHECK (scope IN ('instance', 'workspace', 'task', 'session', 'repository')),
    scope_id   text NOT NULL,
    key        text NOT NULL,
    value      json NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (plugin_id, user_id, scope, scope_id, key)
);

CREATE TABLE gateway.custom_prompts (
    id         text PRIMARY KEY CHECK (char_length(id) BETWEEN 1 AND 255),
    user_id    text NOT NULL,
    name       text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 100),
    content    text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (user_id, name)
);
