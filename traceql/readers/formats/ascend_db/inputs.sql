-- noqa: disable=CP02
-- What is read of a database. A column without a DEFAULT may be absent, and so may every table. Columns of times are known by their names:
-- what is not a time there is -1. All other columns are NULL where a value is of another type. DOUBLE columns are samples of counters.
CREATE TABLE STRING_IDS (id BIGINT DEFAULT NULL, value VARCHAR DEFAULT NULL);
CREATE TABLE ENUM_API_TYPE (id BIGINT, name VARCHAR);
CREATE TABLE ENUM_HCCL_DATA_TYPE (id BIGINT, name VARCHAR);
CREATE TABLE ENUM_HCCL_TRANSPORT_TYPE (id BIGINT, name VARCHAR);
CREATE TABLE ENUM_HCCL_LINK_TYPE (id BIGINT, name VARCHAR);
CREATE TABLE ENUM_MEMCPY_OPERATION (id BIGINT, name VARCHAR);
CREATE TABLE ENUM_MODULE (id BIGINT, name VARCHAR);

-- The host
CREATE TABLE PYTORCH_API (
    startNs BIGINT DEFAULT NULL, endNs BIGINT DEFAULT NULL, globalTid BIGINT, connectionId BIGINT, name BIGINT, sequenceNumber BIGINT,
    fwdThreadId BIGINT, inputDtypes BIGINT, inputShapes BIGINT, callchainId BIGINT, type BIGINT
);
CREATE TABLE PYTORCH_CALLCHAINS (id BIGINT, stack BIGINT, stackDepth BIGINT);
-- Connections of each event of PyTorch: those of the calls that an operator made, and one that putting a task into torch_npu's queue and
-- taking it out share.
CREATE TABLE CONNECTION_IDS (id BIGINT, connectionId BIGINT);
CREATE TABLE CANN_API (
    startNs BIGINT DEFAULT NULL, endNs BIGINT DEFAULT NULL, type BIGINT, globalTid BIGINT, connectionId BIGINT, name BIGINT
);
CREATE TABLE MSTX_EVENTS (
    startNs BIGINT DEFAULT NULL, endNs BIGINT DEFAULT NULL, eventType BIGINT, message BIGINT, globalTid BIGINT, domainId BIGINT,
    connectionId BIGINT
);
CREATE TABLE STEP_TIME (id BIGINT DEFAULT NULL, startNs BIGINT DEFAULT NULL, endNs BIGINT DEFAULT NULL);

-- The device. TASK has a row for each task, and rows that enclose others: one around each operation of communication and around each
-- task of a mixed kernel.
CREATE TABLE TASK (
    startNs BIGINT DEFAULT NULL, endNs BIGINT DEFAULT NULL, deviceId BIGINT, connectionId BIGINT, globalTaskId BIGINT DEFAULT NULL,
    taskType BIGINT, contextId BIGINT, streamId BIGINT, taskId BIGINT, modelId BIGINT
);
CREATE TABLE COMPUTE_TASK_INFO (
    globalTaskId BIGINT DEFAULT NULL, name BIGINT, blockDim BIGINT, blockNum BIGINT, mixBlockDim BIGINT, mixBlockNum BIGINT,
    taskType BIGINT, opType BIGINT, inputFormats BIGINT, inputDataTypes BIGINT, inputShapes BIGINT, outputFormats BIGINT,
    outputDataTypes BIGINT, outputShapes BIGINT, opState BIGINT
);
CREATE TABLE MEMCPY_INFO (globalTaskId BIGINT, size BIGINT, memcpyOperation BIGINT);
CREATE TABLE COMMUNICATION_OP (
    opName BIGINT, startNs BIGINT DEFAULT NULL, endNs BIGINT DEFAULT NULL, connectionId BIGINT, groupName BIGINT, opId BIGINT, relay BIGINT,
    retry BIGINT, dataType BIGINT, algType BIGINT, "count" BIGINT, rankSize BIGINT, deviceId BIGINT
);
CREATE TABLE COMMUNICATION_TASK_INFO (
    globalTaskId BIGINT DEFAULT NULL, taskType BIGINT, planeId BIGINT, groupName BIGINT, notifyId BIGINT, srcRank BIGINT, dstRank BIGINT,
    transportType BIGINT, size BIGINT, dataType BIGINT, linkType BIGINT, opId BIGINT
);
CREATE TABLE OVERLAP_ANALYSIS (startNs BIGINT DEFAULT NULL, endNs BIGINT DEFAULT NULL, type BIGINT DEFAULT NULL, deviceId BIGINT);

-- Memory and counters
CREATE TABLE OP_MEMORY (
    name BIGINT, size BIGINT, allocationTime BIGINT, releaseTime BIGINT, allocationTotalAllocated BIGINT, allocationTotalReserved BIGINT,
    allocationTotalActive BIGINT, releaseTotalAllocated BIGINT, releaseTotalReserved BIGINT, releaseTotalActive BIGINT, streamPtr VARCHAR,
    deviceId BIGINT
);
CREATE TABLE AICORE_FREQ (timestampNs BIGINT DEFAULT NULL, freq DOUBLE);
CREATE TABLE NPU_MEM (timestampNs BIGINT DEFAULT NULL, type BIGINT, ddr DOUBLE, hbm DOUBLE);
CREATE TABLE HBM (timestampNs BIGINT DEFAULT NULL, hbmId BIGINT, type BIGINT, bandwidth DOUBLE);
CREATE TABLE LLC (timestampNs BIGINT DEFAULT NULL, llcId BIGINT, mode BIGINT, hitRate DOUBLE, throughput DOUBLE);
CREATE TABLE QOS (timestampNs BIGINT DEFAULT NULL, eventName BIGINT, bandwidth DOUBLE);
CREATE TABLE ACC_PMU (
    timestampNs BIGINT DEFAULT NULL, accId BIGINT, readBwLevel DOUBLE, writeBwLevel DOUBLE, readOstLevel DOUBLE, writeOstLevel DOUBLE
);
CREATE TABLE SOC_BANDWIDTH_LEVEL (timestampNs BIGINT DEFAULT NULL, l2BufferBwLevel DOUBLE, mataBwLevel DOUBLE);
CREATE TABLE NPU_MODULE_MEM (timestampNs BIGINT DEFAULT NULL, moduleId BIGINT, totalReserved DOUBLE);
CREATE TABLE MEMORY_RECORD (
    timestamp BIGINT DEFAULT NULL, component BIGINT, totalAllocated DOUBLE, totalReserved DOUBLE, totalActive DOUBLE
);

-- The sums in analysis.db, us, and its times of operations, ms.
CREATE TABLE StepTraceTime (
    step VARCHAR, computing DOUBLE, communication_not_overlapped DOUBLE, overlapped DOUBLE, communication DOUBLE, free DOUBLE,
    stage DOUBLE, bubble DOUBLE, communication_not_overlapped_and_exclude_receive DOUBLE, preparing DOUBLE
);
CREATE TABLE CommAnalyzerTime (hccl_op_name VARCHAR, elapse_time DOUBLE);
