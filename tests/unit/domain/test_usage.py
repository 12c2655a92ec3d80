"""Amounts and costs are exact."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeball.domain.instant import DAY, SECOND
from timeball.domain.tenant import MAX_PRICE, MAX_PRICE_DIGITS, Prices
from timeball.domain.usage import Amounts, PriceList, resources_asked, total

counts = st.integers(0, 2**63 - 1)
cpus = st.integers(0, 100_000_000)
mebibytes = st.integers(0, 10**9)
parts = st.builds(Amounts.of, counts, counts, counts, counts, cpus, mebibytes)
price = st.decimals(0, MAX_PRICE, places=MAX_PRICE_DIGITS)
prices = st.builds(
    Prices, run=price, attempt_second=price, cpu_second=price, memory_gib_second=price, output_gib=price
)  # fmt: skip


@given(st.lists(parts, max_size=6), prices)
def test_the_cost_of_a_sum_is_the_sum_of_the_costs(some: list[Amounts], of: Prices) -> None:
    """However the parts are grouped, and without rounding."""
    whole = Amounts()
    for each in some:
        whole += each
    assert whole.cost(of) == total(each.cost(of) for each in some)
    assert Fraction(whole.cost(of)) == (
        whole.runs * Fraction(of.run)
        + Fraction(whole.micros, SECOND) * Fraction(of.attempt_second)
        + Fraction(whole.cpu_micros, 1_000 * SECOND) * Fraction(of.cpu_second)
        + Fraction(whole.memory_micros, 1_024 * SECOND) * Fraction(of.memory_gib_second)
        + Fraction(whole.bytes, 2**30) * Fraction(of.output_gib)
    )


@given(parts)
def test_quantities_are_exact_texts_without_an_exponent(some: Amounts) -> None:
    assert Fraction(some.attempt_seconds) == Fraction(some.micros, SECOND)
    assert Fraction(some.cpu_seconds) == Fraction(some.cpu_micros, 1_000 * SECOND)
    assert Fraction(some.memory_gib_seconds) == Fraction(some.memory_micros, 1_024 * SECOND)
    for number in (some.attempt_seconds, some.cpu_seconds, some.memory_gib_seconds):
        text = f"{number:f}"
        assert Decimal(text) == number
        assert text == "0" or not text.endswith("0") or "." not in text


def test_prices_hold_from_the_day_of_their_change() -> None:
    cheap, dear = Prices(run=Decimal(1)), Prices(run=Decimal(2))
    listed = PriceList([(0, cheap), (10 * DAY, dear)], current=dear)
    assert [listed.on(day * DAY) for day in (0, 9, 10, 11)] == [cheap, cheap, dear, dear]
    assert PriceList([], current=dear).on(0) == dear


@pytest.mark.parametrize(
    ("spec", "asked"),
    [
        ('{"name": "a"}', (0, 0)),
        ('{"resources": {"cpu": 0.25, "memoryMb": 512, "slots": 2}, "task": {}}', (250, 512)),
        ('{"resources": null}', (0, 0)),
        ('{"resources": {"cpu": "many"}}', (0, 0)),
        ('{"resources"', (0, 0)),
    ],
)
def test_resources_are_those_of_a_spec_if_it_can_be_decoded(spec: str, asked: tuple[int, int]) -> None:
    assert resources_asked(spec) == asked
