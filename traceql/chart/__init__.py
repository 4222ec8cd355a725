"""Altair charts of query results, as declared in the head of the query file.

-- @chart bar x=total_ns y=name color=category      one bar per row
-- @chart bar x=median_ns y=phase group=rank        the bars of several ranks side by side
-- @chart stacked x=computing_ns,idle_ns y=rank     several parts in one bar
-- @chart line x=ts y=mean_queued color=rank
-- @chart point x=ts y=dur color=cause
-- @chart heatmap x=number y=layer color=dur        one cell per row
-- @chart timeline x=gpu_ts width=gpu_dur y=rank color=phase
-- @title Where each rank's time went
"""

from traceql.user_folders import require_home

require_home()  # Altair asks for it when it is imported
