"""Altair charts of query results, as their files' heads describe them.

-- @chart bar x=total_ns y=name color=category      a bar per row
-- @chart bar x=median_ns y=phase group=rank        bars of several ranks side by side
-- @chart stacked x=computing_ns,idle_ns y=rank     several columns, or one by colour, in a bar
-- @chart line x=ts y=mean_queued color=rank
-- @chart point x=ts y=dur color=cause
-- @chart heatmap x=number y=layer color=dur        a cell per row
-- @chart timeline x=gpu_ts width=gpu_dur y=rank color=phase
-- @title Where each rank's time went
"""
