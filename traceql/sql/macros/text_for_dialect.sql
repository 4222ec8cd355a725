-- A text of traceql with the words for the devices of a dialect: Ascend has NPUs, not GPUs. The same words as in traceql.readers.dialects.registry.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO text_for_dialect(dialect, text) AS
    CASE
        WHEN dialect = 'ascend'
            THEN replace(
                replace(replace(text, 'CUDA runtime or driver call', 'Call of CANN'), 'CUDA graph', 'ACL graph'),
                'GPU',
                'NPU'
            )
        ELSE text
    END
