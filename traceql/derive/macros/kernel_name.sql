-- What a kernel is called without the part of its name that changes from one call to the next: the numbers of an operation of Ascend's HCCL (its communicator, its place there, and the step).
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO kernel_name(name) AS CASE
    WHEN starts_with(name, 'hcom_') THEN regexp_replace(name, '^(hcom_[A-Za-z]+_)_[0-9_]+$', '\1')
    ELSE name
END
