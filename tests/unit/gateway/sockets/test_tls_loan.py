"""One borrower at a time."""

import pytest

from highwater.gateway.sockets.tls_loan import TlsLoan
from tests.unit.gateway.sockets.tls_world import HeldThreads


def test_the_borrower_hears_first_and_may_find_it_free():
    threads, heard = HeldThreads(), []
    loan = TlsLoan(lambda: heard.append(("back", loan.free)))
    loan.lend(threads, lambda: 5, lambda result: heard.append((result, loan.free)))
    assert not loan.free
    with pytest.raises(AssertionError):
        loan.lend(threads, lambda: 6, heard.append)
    threads.work()
    assert heard == [(5, True), ("back", True)]


def test_on_back_may_lend_again():
    threads, heard = HeldThreads(), []
    loan = TlsLoan(lambda: len(heard) < 3 and loan.lend(threads, lambda: 1, heard.append))
    loan.lend(threads, lambda: 0, heard.append)
    while threads.waiting:
        threads.work()
    assert heard == [0, 1, 1]
