"""What a call costs the host: times that can be, and functions without this machine's folders."""

import torch

from compile_lab.measure.host import _named, busiest, host_cost


def test_a_call_has_its_times_and_its_busiest_functions():
    found = host_cost(lambda: torch.ones(8).sum(), "cpu", samples=5)
    assert 0 < found.issued_low_us <= found.issued_us <= found.issued_high_us and found.thread_us > 0
    shares = [share for _, share in found.busiest]
    assert shares == sorted(shares, reverse=True) and 0 < sum(shares) <= 1.001


def test_the_function_that_works_most_comes_first():
    def lazy():
        return sum(range(500_000)) + len("x")

    name, share = busiest(lazy)[0]
    assert name == "built-in method builtins.sum" and share > 0.9


def test_no_folder_and_no_hash_is_told():
    assert _named("/somewhere/here/model.py", 3, "forward") == "model.forward"
    assert _named("~", 0, "<built-in method torch.addmm>") == "built-in method torch.addmm"
    assert _named(f"/elsewhere/c{'a1' * 25}.py", 9, "call") == "generated code.call"
