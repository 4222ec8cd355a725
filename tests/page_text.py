"""Pages without their pictures, which take most of their time and show what the tables show."""

import pytest

from traceql.present.report.charts import PageCharts


def leave_out_pictures(patch: pytest.MonkeyPatch) -> None:
    """Tests of what a page says need none; tests/test_report.py looks at them."""
    for name in ("__init__", "begin", "close"):
        patch.setattr(PageCharts, name, lambda *_, **__: None)
