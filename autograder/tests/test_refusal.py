"""What is raised on behalf of a side becomes a message about it; what is no side's doing passes through."""

import pytest

from autograder.measuring.wire.messages import NothingNew, ProtocolError, SideRaised
from autograder.measuring.worker.refusal import Refused, on_behalf_of
from autograder.not_begun import STUB


def stub():
    raise NotImplementedError(STUB)


def raises(error):
    raise error


@pytest.mark.parametrize(
    ("fails", "reply"),
    [
        (lambda: raises(KeyError("weights")), SideRaised("candidate", "KeyError", "'weights'")),
        (lambda: raises(NotImplementedError("later")), SideRaised("candidate", "NotImplementedError", "later")),
        (stub, SideRaised("candidate", "NotBegun", "stub")),
    ],
)
def test_an_error_is_told_of_the_side(fails, reply):
    with pytest.raises(Refused) as caught, on_behalf_of("candidate"):
        fails()
    assert caught.value.reply == reply


def test_a_long_error_is_cut():
    with pytest.raises(Refused) as caught, on_behalf_of("baseline"):
        raises(ValueError("a" * 100_000))
    assert 100 < len(caught.value.reply.text) < 10_000


@pytest.mark.parametrize("error", [Refused(NothingNew()), ProtocolError("half a message"), KeyboardInterrupt()])
def test_what_is_not_the_side_s_doing_passes_through(error):
    with pytest.raises(type(error)) as caught, on_behalf_of("candidate"):
        raises(error)
    assert caught.value is error


def test_what_raises_nothing_is_not_disturbed():
    with on_behalf_of("baseline"):
        pass
