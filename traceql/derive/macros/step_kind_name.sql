-- Name of the kind of step that a host is blamed for together: steps without CUDA graphs are of one kind, whatever their phase.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO step_kind_name(phase, graph_mode) AS
    CASE WHEN graph_mode = 'none' THEN 'none' ELSE concat_ws(' ', phase, graph_mode) END
