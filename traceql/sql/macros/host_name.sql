-- What a host event is called without the part of its name that changes from one call to the next: the batch of a vLLM step, the hash of a compiled graph, the number of a profiler step or of a module of its class, the address of an object.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO host_name(name) AS CASE
    WHEN regexp_matches(name, '^execute_(\d+_)?context_\d+\(') THEN 'execute_model'
    WHEN starts_with(name, '## Call CompiledFxGraph ') THEN 'CompiledFxGraph'
    WHEN starts_with(name, 'Torch-Compiled Region') THEN 'Torch-Compiled Region'
    WHEN starts_with(name, 'ProfilerStep#') THEN 'ProfilerStep'
    ELSE regexp_replace(name, '^(nn\.Module: .*)_\d+$| at 0x[0-9a-f]+', '\1', 'g')
END
