-- A tenant's records, newest first. An id begins with its time.
CREATE INDEX lineage_entry_tenant ON lineage_entry (tenant, id) WHERE tenant IS NOT NULL;
