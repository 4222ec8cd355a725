-- Data that queries join (queries/rules), as it was when this database was made.

COMMENT ON TABLE link IS 'One row per kind of link; of a medium the first whose device matches counts.';
COMMENT ON COLUMN link.position IS 'Order.';
COMMENT ON COLUMN link.device IS
    'RE2 regular expression, found anywhere in the GPU''s name; of a network in the link layer and rate of its adapters.';
COMMENT ON COLUMN link.medium IS
    'fabric (all such GPUs of a host have it), bridge (those that a bridge joins), pcie, or network (between hosts).';
COMMENT ON COLUMN link.link IS 'What connects GPUs of that kind.';
COMMENT ON COLUMN link.peak_gbps IS 'Its peak in one direction, per GPU or network adapter, 1e9 bytes per second.';
COMMENT ON COLUMN link.source IS 'Where that is written.';

COMMENT ON TABLE finding_rule IS 'One row per kind of finding: from which value on it is told.';
COMMENT ON COLUMN finding_rule.finding IS 'Its name.';
COMMENT ON COLUMN finding_rule.notable IS 'From this value on it is told.';
COMMENT ON COLUMN finding_rule.severe IS 'From this value on it is severe.';
COMMENT ON COLUMN finding_rule.unit IS 'Unit of both.';
COMMENT ON COLUMN finding_rule.evidence IS 'The query that shows it.';
COMMENT ON COLUMN finding_rule.advice IS 'What to try.';
COMMENT ON COLUMN finding_rule.source IS 'Where the thresholds come from.';
