CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE clusters (
	cluster BIGINT NOT NULL, 
	name TEXT NOT NULL, 
	PRIMARY KEY (cluster)
);
CREATE TABLE entities (
	cluster BIGINT NOT NULL, 
	entity BIGINT NOT NULL, 
	host BIGINT NOT NULL, 
	resource_set BIGINT NOT NULL, 
	kind TEXT NOT NULL, 
	stable TEXT NOT NULL, 
	stable_hash BIGINT NOT NULL, 
	epoch TEXT NOT NULL, 
	name TEXT NOT NULL, 
	appeared DOUBLE NOT NULL, 
	last_seen DOUBLE NOT NULL, 
	vanished DOUBLE, 
	moved_from BIGINT, 
	labels TEXT NOT NULL, 
	PRIMARY KEY (cluster, entity, host)
);
CREATE INDEX entities_stable ON entities (stable_hash);
CREATE TABLE entity_names (
	cluster BIGINT NOT NULL, 
	entity BIGINT NOT NULL, 
	name_hash BIGINT NOT NULL, 
	name TEXT NOT NULL, 
	first_seen DOUBLE NOT NULL, 
	PRIMARY KEY (cluster, entity, name_hash)
);
CREATE INDEX entity_names_name ON entity_names (name_hash);
CREATE TABLE episodes (
	host BIGINT NOT NULL, 
	entity BIGINT NOT NULL, 
	started DOUBLE NOT NULL, 
	metric_hash BIGINT NOT NULL, 
	code SMALLINT NOT NULL, 
	resource_set BIGINT NOT NULL, 
	cluster BIGINT NOT NULL, 
	day BIGINT NOT NULL, 
	metric TEXT NOT NULL, 
	ended DOUBLE NOT NULL, 
	samples BIGINT NOT NULL, 
	open BOOLEAN NOT NULL, 
	copies TEXT NOT NULL, 
	PRIMARY KEY (host, entity, started, metric_hash, code, resource_set, cluster, day)
);
CREATE INDEX episodes_age ON episodes (day);
CREATE TABLE events (
	day BIGINT NOT NULL, 
	cluster BIGINT NOT NULL, 
	event BIGINT NOT NULL, 
	time DOUBLE NOT NULL, 
	kind TEXT NOT NULL, 
	host BIGINT, 
	entity BIGINT, 
	details TEXT NOT NULL, 
	PRIMARY KEY (day, cluster, event)
);
CREATE INDEX events_age ON events (day);
CREATE TABLE five_minutes (
	cluster BIGINT NOT NULL, 
	minute BIGINT NOT NULL, 
	host BIGINT NOT NULL, 
	resource_set BIGINT NOT NULL, 
	epoch BIGINT NOT NULL, 
	schema BIGINT NOT NULL, 
	tick BIGINT NOT NULL, 
	late INTEGER NOT NULL, 
	ids BLOB NOT NULL, 
	count BLOB, 
	valid BLOB, 
	mean BLOB, 
	deviation BLOB, 
	low BLOB, 
	high BLOB, 
	last BLOB, 
	p95 BLOB, 
	passed_on BOOLEAN NOT NULL, 
	sketch BLOB, 
	PRIMARY KEY (cluster, minute, host, resource_set, epoch, schema)
);
CREATE INDEX five_minutes_age ON five_minutes (minute);
CREATE TABLE hosts (
	cluster BIGINT NOT NULL, 
	host BIGINT NOT NULL, 
	name TEXT NOT NULL, 
	name_hash BIGINT NOT NULL, 
	first_seen DOUBLE NOT NULL, 
	last_seen DOUBLE NOT NULL, 
	PRIMARY KEY (cluster, host)
);
CREATE INDEX hosts_name ON hosts (name_hash);
CREATE TABLE hours (
	cluster BIGINT NOT NULL, 
	minute BIGINT NOT NULL, 
	host BIGINT NOT NULL, 
	resource_set BIGINT NOT NULL, 
	epoch BIGINT NOT NULL, 
	schema BIGINT NOT NULL, 
	tick BIGINT NOT NULL, 
	late INTEGER NOT NULL, 
	ids BLOB NOT NULL, 
	count BLOB, 
	valid BLOB, 
	mean BLOB, 
	deviation BLOB, 
	low BLOB, 
	high BLOB, 
	last BLOB, 
	p95 BLOB, 
	passed_on BOOLEAN NOT NULL, 
	sketch BLOB, 
	PRIMARY KEY (cluster, minute, host, resource_set, epoch, schema)
);
CREATE INDEX hours_age ON hours (minute);
CREATE TABLE metrics (
	schema BIGINT NOT NULL, 
	place SMALLINT NOT NULL, 
	resource_set BIGINT NOT NULL, 
	set_name TEXT NOT NULL, 
	name TEXT NOT NULL, 
	unit TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	low DOUBLE, 
	high DOUBLE, 
	help TEXT NOT NULL, 
	PRIMARY KEY (schema, place)
);
CREATE TABLE minutes (
	cluster BIGINT NOT NULL, 
	minute BIGINT NOT NULL, 
	host BIGINT NOT NULL, 
	resource_set BIGINT NOT NULL, 
	epoch BIGINT NOT NULL, 
	schema BIGINT NOT NULL, 
	tick BIGINT NOT NULL, 
	late INTEGER NOT NULL, 
	ids BLOB NOT NULL, 
	count BLOB, 
	valid BLOB, 
	mean BLOB, 
	deviation BLOB, 
	low BLOB, 
	high BLOB, 
	last BLOB, 
	p95 BLOB, 
	passed_on BOOLEAN NOT NULL, 
	sketch BLOB, 
	PRIMARY KEY (cluster, minute, host, resource_set, epoch, schema)
);
CREATE INDEX minutes_age ON minutes (minute);
CREATE INDEX minutes_fresh ON minutes (cluster, minute) WHERE NOT passed_on;
CREATE TABLE partitions (
	cluster BIGINT NOT NULL, 
	partition INTEGER NOT NULL, 
	commit_id BIGINT NOT NULL, 
	entry TEXT NOT NULL, 
	state BLOB NOT NULL, 
	committed DOUBLE NOT NULL, 
	PRIMARY KEY (cluster, partition)
);
CREATE TABLE positions (
	cluster BIGINT NOT NULL, 
	host BIGINT NOT NULL, 
	resource_set BIGINT NOT NULL, 
	epoch BIGINT NOT NULL, 
	partition INTEGER NOT NULL, 
	sequence BIGINT NOT NULL, 
	PRIMARY KEY (cluster, host, resource_set, epoch)
);
CREATE INDEX positions_partition ON positions (cluster, partition);
VIEW rollup_values [('cluster', 'BIGINT'), ('host', 'BIGINT'), ('entity', ''), ('resource_set', 'TEXT'), ('metric', 'TEXT'), ('unit', 'TEXT'), ('level', ''), ('time', ''), ('seconds', 'BIGINT'), ('count', ''), ('valid', ''), ('mean', ''), ('deviation', ''), ('low', ''), ('high', ''), ('last', ''), ('p95', '')];
CREATE TABLE rollups_1h (
	cluster BIGINT NOT NULL, 
	entity BIGINT NOT NULL, 
	began BIGINT NOT NULL, 
	host BIGINT NOT NULL, 
	resource_set BIGINT NOT NULL, 
	epoch BIGINT NOT NULL, 
	schema BIGINT NOT NULL, 
	slots SMALLINT NOT NULL, 
	offsets BLOB NOT NULL, 
	steps BLOB, 
	count BLOB, 
	valid BLOB, 
	mean BLOB, 
	deviation BLOB, 
	low BLOB, 
	high BLOB, 
	last BLOB, 
	p95 BLOB, 
	PRIMARY KEY (cluster, entity, began, host, resource_set, epoch, schema)
);
CREATE INDEX rollups_1h_age ON rollups_1h (began);
CREATE TABLE rollups_1m (
	cluster BIGINT NOT NULL, 
	entity BIGINT NOT NULL, 
	began BIGINT NOT NULL, 
	host BIGINT NOT NULL, 
	resource_set BIGINT NOT NULL, 
	epoch BIGINT NOT NULL, 
	schema BIGINT NOT NULL, 
	slots SMALLINT NOT NULL, 
	offsets BLOB NOT NULL, 
	steps BLOB, 
	count BLOB, 
	valid BLOB, 
	mean BLOB, 
	deviation BLOB, 
	low BLOB, 
	high BLOB, 
	last BLOB, 
	p95 BLOB, 
	PRIMARY KEY (cluster, entity, began, host, resource_set, epoch, schema)
);
CREATE INDEX rollups_1m_age ON rollups_1m (began);
CREATE TABLE rollups_5m (
	cluster BIGINT NOT NULL, 
	entity BIGINT NOT NULL, 
	began BIGINT NOT NULL, 
	host BIGINT NOT NULL, 
	resource_set BIGINT NOT NULL, 
	epoch BIGINT NOT NULL, 
	schema BIGINT NOT NULL, 
	slots SMALLINT NOT NULL, 
	offsets BLOB NOT NULL, 
	steps BLOB, 
	count BLOB, 
	valid BLOB, 
	mean BLOB, 
	deviation BLOB, 
	low BLOB, 
	high BLOB, 
	last BLOB, 
	p95 BLOB, 
	PRIMARY KEY (cluster, entity, began, host, resource_set, epoch, schema)
);
CREATE INDEX rollups_5m_age ON rollups_5m (began);
CREATE TABLE runs (
	name TEXT NOT NULL, 
	started DOUBLE NOT NULL, 
	command TEXT NOT NULL, 
	ended DOUBLE, 
	figures TEXT NOT NULL, 
	PRIMARY KEY (name)
);
CREATE TABLE unprovided (
	cluster BIGINT NOT NULL, 
	host BIGINT NOT NULL, 
	resource_set BIGINT NOT NULL, 
	metric_hash BIGINT NOT NULL, 
	metric TEXT NOT NULL, 
	since DOUBLE NOT NULL, 
	PRIMARY KEY (cluster, host, resource_set, metric_hash)
);
