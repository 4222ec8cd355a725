-- Whether a gap of this cause is due to the host: it had issued nothing for the device (causes host and sync).
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO is_caused_by_host(cause) AS cause IN ('host', 'sync')
