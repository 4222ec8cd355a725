"""Altair charts of query results, as declared in the head of the query file.

-- @chart bar x=total_ns y=name color=category      one bar per row
-- @chart bar x=median_ns y=phase group=rank        the bars of several ranks side by side
-- @chart bar x=mfu_pct,mbu_pct y=phase            the bars of several quantities side by side
-- @chart stacked x=computing_ns,idle_ns y=rank     several parts in one bar
-- @chart parts x=wait_ns,idle_ns y=point total=overhead_ns panel=phase    also negative ones
-- @chart line x=ts y=mean_queued color=rank
-- @chart point x=ts y=dur color=cause
-- @chart point x=bytes y=busbw_p50_gbps limits=peak_gbps    a line at the largest of a column
-- @chart range x=p50_ns,p99_ns y=latency color=pass      a dot, and a line to the last value
-- @chart heatmap x=number y=layer color=dur        one cell per row
-- @chart heatmap x=layer y=role color=ceiling_pct      percentages: from 0 to 100, means of cells
-- @chart deviation x=layer y=role color=total_ns          each cell less the median of its row
-- @chart timeline x=gpu_ts width=gpu_dur y=rank color=phase
-- @chart waterfall x=mean_ns y=part color=bar group=phase      a total, and what it is made of
-- @chart waterfall x=ns y=name color=part scale=longest_ns    several totals on one scale
-- @chart difference x=delta_ns y=name base=base_ns new=new_ns verdict=verdict     from base to new
-- @chart dumbbell x=base_ns,new_ns y=role                 two sides on one scale
-- @chart forest x=change_pct,low_pct,high_pct y=metric color=verdict      changes with intervals
-- @chart delta x=layer y=role color=delta_ns of=base_ns   each cell longer or shorter than base
-- @chart roofline x=intensity y=achieved_tflops size=total_ns color=phase label=role (in one line:)
            dtype=dtype roofs=peak_tflops,peak_gbps measured=measured_tflops,measured_gbps
-- @chart curve x=prompt_tokens y=median_ns low=low_ns high=high_ns fit=fitted_ns color=in_flight,
            request_rate panel=panel name=metric        measured points, and the curve through them
-- @chart curve x=load y=requests_per_second second=good_requests_per_second color=engine
-- @chart front x=user x_low=... x_high=... y=gpu y_low=... y_high=... color=engine label=load
            front=front panel=panel         more is better in both, with intervals (in one line:)
-- @chart bar x=wait_ns y=role,layer,number             rows named by several columns
-- @chart history x=recorded_unix_ns y=median_ns panel=title ...    one panel per series
-- @title Where each rank's time went
"""

from traceql.util.resources import require_home

require_home()  # Altair asks for it when it is imported
