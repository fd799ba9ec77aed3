"""What a call says when it refuses its input."""

import pytest
from hardpack.errors import BadInput


def refusal(call, *arguments, **keywords):
    """The sentence with which a call refuses what it is given."""
    with pytest.raises(BadInput) as caught:
        call(*arguments, **keywords)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    return str(caught.value)
