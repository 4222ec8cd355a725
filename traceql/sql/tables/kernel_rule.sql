-- One row per classification rule that this database was made with.
-- @kind   source
-- @schema reference
-- @scope  rank
-- @column priority  BIGINT   Order of the rules: of all rules that match a name, the one with the lowest number decides.
-- @column pattern   VARCHAR  RE2 regular expression, which may match anywhere in the kernel's name.
-- @column category  VARCHAR  Kernel category of the kernels that match.
-- @column example   VARCHAR  A kernel name that this rule decides.
-- @column note      VARCHAR  Explanation of the rule.
CREATE TABLE IF NOT EXISTS kernel_rule (
    priority BIGINT,
    pattern VARCHAR,
    category VARCHAR,
    example VARCHAR,
    note VARCHAR
)
