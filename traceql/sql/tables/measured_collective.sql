-- One row per measured communication among GPUs of one machine, from peaks.json; empty without one.
-- @scope  run
-- @needs  measured_device
-- @empty_unless measured_device
-- @column device_name       VARCHAR  Name of the GPUs.
-- @column op                VARCHAR  all_reduce, all_gather, reduce_scatter or all_to_all; send_recv (each rank to the next, at once); peer_copy (from one GPU to another) or peer_copy_both (both directions at once).
-- @column ranks             BIGINT   GPUs that take part.
-- @column bytes             BIGINT   Size of the whole buffer (the output of an all_gather, the input of a reduce_scatter); of a copy or send_recv, in one direction.
-- @column ns                DOUBLE   Median time from one to the next on the slowest rank, ns.
-- @column mad_ns            DOUBLE   Median absolute deviation of the duration, ns; NULL if unknown.
-- @column kernel_ns         DOUBLE   Median duration of its kernel on the rank that began it last, ns; NULL if unknown.
-- @column fastest_ns        DOUBLE   Shortest duration of its kernel on the rank that began it last, ns; NULL if unknown.
-- @column algorithm         VARCHAR  Who carried it out: nccl, custom (vLLM's all-reduce), copy (by a copy engine) or copy_kernel.
-- @column busbw_gbps        DOUBLE   Bus bandwidth as in table collective: bytes / ns x 2(n-1)/n for all_reduce, x (n-1)/n for all_gather, reduce_scatter and all_to_all, x 1 for the others, 1e9 bytes per second.
-- @column from_gpu          BIGINT   GPU that a copy reads, as nvidia-smi numbers it among those measured; NULL for collectives, and if unknown.
-- @column to_gpu            BIGINT   GPU that a copy writes; NULL for collectives, and if unknown.
-- @column source            VARCHAR  Program whose file it was imported from, such as nccl-tests; NULL if traceql measured it.
-- @column sm_clock_mhz      BIGINT   Clock of the multiprocessors right after it, MHz; NULL if unknown.
-- @column throttle_reasons  BIGINT   NVML's bit mask of the reasons why the clocks were lower than they could be; NULL if unknown.
SELECT
    device_name, found.op, found.ranks, found.bytes, found.ns, found.mad_ns, found.kernel_ns,
    found.fastest_ns, found.algorithm,
    found.bytes / found.ns * CASE found.op
        WHEN 'all_reduce' THEN 2.0 * (found.ranks - 1) / found.ranks
        WHEN 'all_gather' THEN 1.0 * (found.ranks - 1) / found.ranks
        WHEN 'reduce_scatter' THEN 1.0 * (found.ranks - 1) / found.ranks
        WHEN 'all_to_all' THEN 1.0 * (found.ranks - 1) / found.ranks
        ELSE 1.0
    END AS busbw_gbps,
    found.from_gpu, found.to_gpu, found.source, found.sm_clock_mhz, found.throttle_reasons
FROM (
    SELECT
        device_name,
        UNNEST(from_json(document -> '$.collectives', '[{
            "op": "VARCHAR", "ranks": "BIGINT", "bytes": "BIGINT", "ns": "DOUBLE", "mad_ns": "DOUBLE",
            "kernel_ns": "DOUBLE", "fastest_ns": "DOUBLE", "algorithm": "VARCHAR",
            "from_gpu": "BIGINT", "to_gpu": "BIGINT", "source": "VARCHAR", "sm_clock_mhz": "BIGINT", "throttle_reasons": "BIGINT"
        }]')) AS found
    FROM measured_device
)
