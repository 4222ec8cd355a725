-- Bytes of an element of the KV cache, from the name of a kernel that writes it: its second template argument; NULL if the name does not say.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO kv_element_bytes(name) AS CASE
    WHEN regexp_matches(name, 'cache\w*_kernel<[^,<>]+, (unsigned char|uint8_t|signed char|__nv_fp8\w*|c10::Float8\w*)\b') THEN 1
    WHEN regexp_matches(name, 'cache\w*_kernel<[^,<>]+, (__nv_bfloat16|__hip_bfloat16|unsigned short|uint16_t|__half|_Float16|c10::\w+|at::\w+)\b') THEN 2
    WHEN regexp_matches(name, 'cache\w*_kernel<[^,<>]+, float\b') THEN 4
END
