"""Trust between clients and shards: secrets, credentials, TLS, admission."""
