"""How much more the fullest rank of spread experts has than the mean rank."""

from math import sqrt
from statistics import NormalDist

from traceql.analysis.model.sizes import Experts


def fullest_rank(experts: Experts, ranks: int, tokens: int) -> float:
    """Work of the fullest rank in relation to the mean, if all experts are equally likely.

    Of few tokens, the number of distinct experts counts, whose weights are read; of many, the
    number of rows. The larger of the two ratios is taken. Both are nearly normal, so that the
    largest of so many is the mean and so many standard deviations (Blom's approximation).
    """
    if ranks == 1:
        return 1.0
    deviations = NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25))
    own, chosen = experts.count / ranks, experts.top_k / experts.count
    touched = 1 - (1 - chosen) ** tokens
    of_experts = sqrt(own * touched * (1 - touched)) / (own * touched)
    drawn = (experts.count - experts.top_k) / max(experts.count - 1, 1)
    rows = tokens * experts.top_k / ranks
    of_rows = sqrt(rows * (1 - 1 / ranks) * drawn) / rows
    return 1 + deviations * (of_experts if touched < 0.99 else of_rows)
