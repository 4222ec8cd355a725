-- Name of the kind of step that a host is blamed for together: steps without graphs are of one kind, whatever their phase.
--
-- Steps whose graph replays were not recorded kernel by kernel have no graph mode: it is called unrecorded.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO step_kind_name(phase, graph_mode) AS
    CASE WHEN graph_mode = 'none' THEN 'none' ELSE concat_ws(' ', phase, COALESCE(graph_mode, 'unrecorded')) END
