"""A reader in one file, which a test puts on the path of the readers' package: its source text."""

SOURCE = '''
"""The reader of .toy files: a GPU kernel per line, `name ts dur`, in ns."""

from pathlib import Path

from traceql.readers.contract import Reader


def _recognises(path):
    return path.name.endswith(".toy")


def _read(path, *, trace_processor):
    import pyarrow as pa

    from traceql.readers.tables import SCHEMAS, TraceTables

    kernels = [line.split() for line in path.read_text().splitlines()]
    slices = [
        {
            "index": index, "cat": "kernel", "name": name, "ts": int(ts), "dur": int(dur),
            "track": 0, "depth": 0,
        }
        for index, (name, ts, dur) in enumerate(kernels)
    ]
    rows = {
        "slice": slices,
        "activity": [{"index": s["index"], "device": 0, "stream": 0} for s in slices],
        "track": [{"track": 0, "pid": "0", "tid": "0", "process_name": "toy GPU"}],
        "count": [
            {
                "phase": "slice", "cat": "kernel", "events": len(kernels),
                "dur": sum(int(dur) for _, _, dur in kernels),
            }
        ],
    }

    def column(name, field):
        values = [row.get(field.name) for row in rows.get(name, [])]
        if pa.types.is_dictionary(field.type):
            return pa.array(values, field.type.value_type).dictionary_encode()
        return pa.array(values, field.type)

    return TraceTables(
        {
            name: pa.table([column(name, field) for field in schema], schema=schema)
            for name, schema in SCHEMAS.items()
        }
    )


READER = Reader(
    name="toy",
    format="text",
    suffixes=(".toy",),
    dialect="pytorch",
    recognises=_recognises,
    read=_read,
)
'''
