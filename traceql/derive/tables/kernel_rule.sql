-- One row per classification rule that this database was made with.
-- @kind   source
-- @scope  rank
-- @column priority  BIGINT   The matching rule with the lowest number wins.
-- @column pattern   VARCHAR  RE2 regular expression, found anywhere in the kernel's name.
-- @column category  VARCHAR  Category of the kernels that match.
-- @column example   VARCHAR  A kernel name that this rule decides.
-- @column note      VARCHAR  Why.
CREATE TABLE IF NOT EXISTS kernel_rule (
    priority BIGINT,
    pattern VARCHAR,
    category VARCHAR,
    example VARCHAR,
    note VARCHAR
)
