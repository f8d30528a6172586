"""What an expression names."""

import pytest

from deploy.checks.promql import Matcher, labels_of, matchers_of, metrics_of


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("up == 0", {"up"}),
        ("sum(rate(a_total[5m]))", {"a_total"}),
        ('a{b="c d", e=~"f|g"} > 1.5e9', {"a"}),
        ("histogram_quantile(0.99, sum by (le, c) (rate(a_bucket[1m]))) > 1", {"a_bucket"}),
        ("sum(a) without (b) / on (c) group_left (d) e offset 5m", {"a", "e"}),
        ("absent(a) or vector(0)", {"a"}),
        ('label_replace(a, "b", "c", "d", "e")', {"label_replace", "a"}),
    ],
)
def test_metrics_are_told_from_functions_labels_and_texts(expression: str, names: set[str]) -> None:
    assert metrics_of(expression) == names


def test_comparisons_of_labels_are_found() -> None:
    found = list(matchers_of('a{b="c", d=~"e|f"} / g{h!="i"}'))
    assert found == [Matcher("a", "b", ("c",)), Matcher("a", "d", ("e", "f")), Matcher("g", "h", ("i",))]


def test_groupings_are_found() -> None:
    assert labels_of("sum by (le, a) (b) / max without (c) (d)") == {"le", "a", "c"}
