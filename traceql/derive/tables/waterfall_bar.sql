-- One row per bar of a waterfall (see waterfall): what its time is, and what would make it shorter.
-- @schema reference
-- @scope  rank
-- @column position  BIGINT   Order of the bars, from 0.
-- @column bar       VARCHAR  Name of the bar.
-- @column meaning   VARCHAR  What the time is.
-- @column advice    VARCHAR  What would make it shorter.
SELECT
    CAST(listed.position AS BIGINT) AS position,
    listed.bar,
    listed.meaning,
    listed.advice
FROM (
    VALUES
    (
        0,
        'floor',
        'work for the tokens, at the peak of matrix units or memory',
        'Larger batches share the reading of weights among more tokens; narrower numbers, such as fp8, halve bytes and FLOPs.'
    ),
    (
        1,
        'padding',
        'work for rows that belong to no token',
        'Graphs pad a batch to the next captured size: add the usual ones to cudagraph_capture_sizes.'
    ),
    (
        2,
        'small_kernels',
        'what any kernel takes, however little it does',
        'Fuse kernels with their neighbors: fused norms, activations, rope and quantization.'
    ),
    (
        3,
        'below_roofline',
        'kernels of known work, beyond what the peak needs',
        'Try another backend or tuned kernels for the worst roles; a product that tensor parallelism makes too narrow is slow.'
    ),
    (
        4,
        'not_modelled',
        'kernels and transfers whose work or peak is unknown',
        'step.floor says what is missing: often traceql load --model-config, or --peaks for a GPU that is not listed.'
    ),
    (
        5,
        'comm_floor',
        'exposed transfers, as long as the links need for the bytes',
        'Use fewer tensor-parallel ranks, or overlap communication with computing.'
    ),
    (
        6,
        'comm_above_floor',
        'exposed transfers, beyond what the links need',
        'Small messages cost latency: one-shot or fused all-reduces, or fewer and larger messages.'
    ),
    (
        7,
        'comm_unmatched',
        'exposed communication that may be waiting',
        'Load the traces of all ranks: only then waiting and transfer can be told apart.'
    ),
    (
        8,
        'waiting',
        'communication that waits for a late rank',
        'time.lost has the root causes, comm.waits the late ranks.'
    ),
    (
        9,
        'expert_imbalance',
        'experts, beyond the mean of the ranks',
        'Balance the experts of the ranks (vLLM: --enable-eplb); ep.balance compares the ranks.'
    ),
    (
        10,
        'copies',
        'memory copies and sets that nothing hides',
        'Copy from pinned memory on another stream while kernels run.'
    ),
    (
        11,
        'idle',
        'nothing runs',
        'idle.by_cause has the causes. Graph replays remove gaps of cause host, larger kernels those of cause launch.'
    ),
    (
        12,
        'other_step',
        'kernels of another step, or of none',
        'Nothing to gain: the GPU spans of steps overlap.'
    )
) AS listed (position, bar, meaning, advice)
ORDER BY listed.position
