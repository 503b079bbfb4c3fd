"""The committed table of attacks and faults is of today's texts, and the course comes out of it unharmed."""

import pytest
from attacks import KINDS, TABLE, WAYS, counts, everything, known, page

pytestmark = [pytest.mark.once, pytest.mark.thorough]

WAY = next(iter(WAYS))


@pytest.fixture(scope="module")
def tried():
    return everything()


def test_each_attack_and_each_fault_was_graded_in_each_way(tried):
    found = known(tried)
    missing = {way: {one.name for one in tried} - found[way].keys() for way in WAYS}
    assert missing == dict.fromkeys(WAYS, set()), "python benchmarks/attacks.py"
    assert len({one.name for one in tried}) == len(tried)


@pytest.mark.parametrize("kind", KINDS)
def test_none_of_them_does_to_the_course_what_it_should_not(tried, kind):
    assert any(one.kind == kind for one in tried)
    assert set(counts(kind, tried, known(tried)[WAY]).values()) == {0}


def test_the_page_is_of_the_table(tried):
    tables = page(tried, known(tried)).split("\n\n")[3:]
    assert TABLE.with_suffix(".md").read_text().split("\n\n")[3:] == tables


def test_a_change_of_an_attack_asks_for_another_row(tried):
    changed = [one._replace(content=one.content + b" ") for one in tried]
    assert known(changed) == {way: {} for way in WAYS}
