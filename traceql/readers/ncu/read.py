"""Reads a file of Nsight Compute."""

from hashlib import sha256
from pathlib import Path

from traceql.errors import ProfileSkipped, TraceCorrupt
from traceql.readers.ncu.csv_file import csv_profile
from traceql.readers.ncu.csv_text import csv_text
from traceql.readers.ncu.profile import Profile
from traceql.readers.ncu.recognition import REPORTS
from traceql.readers.ncu.report_file import ModuleMissing, report_profile
from traceql.util.input_file import Unusable, content


def read_profile(path: Path) -> Profile:
    """What a file of Nsight Compute holds.

    Raises:
        ProfileSkipped: it is a report, and the module that reads reports is not installed.
        TraceCorrupt: it cannot be used; the message says why.
    """
    try:
        file = content(path)
        if path.name.endswith(REPORTS):
            page, (launches, metrics, remarks) = "report", report_profile(path)
        else:
            page, launches, metrics, remarks = csv_profile(csv_text(file))
    except ModuleMissing as error:
        raise ProfileSkipped(f"{path}: {error}") from None
    except Unusable as error:
        raise TraceCorrupt(f"{path}: {error}") from None
    digest = sha256(file).hexdigest()
    return Profile(path, digest, len(file), page, launches, metrics, remarks)
