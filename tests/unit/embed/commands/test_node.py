import pytest

from highwater.embed.clients.nodes import DecommissionStep, NodeView
from highwater.model.errors import UsageError


def view(number, **fields):
    values = {"address": f"h{number}:1", "rack": "r", "state": "alive", "replicas": 3, "leaders": 1}
    return NodeView(node_id=number, **{**values, **fields})


def test_list(highwater, monkeypatch):
    asked = []
    nodes = [view(1), view(2, state="fenced, decommissioned", replicas=0, leaders=0)]
    monkeypatch.setattr(
        "highwater.embed.clients.nodes.read_nodes", lambda at: asked.append(at) or nodes
    )
    code, out, _ = highwater("node", "list", "--controller", "c:1")
    assert (code, asked) == (0, ["c:1"])
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines()]
    assert ["1", "h1:1", "r", "alive", "3", "1"] in rows
    assert ["2", "h2:1", "r", "fenced, decommissioned", "0", "0"] in rows


def test_decommission_shows_its_progress(highwater, monkeypatch):
    calls = []

    def decommission(address, number, *, moves_max, on_step):
        calls.append((address, number, moves_max))
        on_step(DecommissionStep(left=3, moving=2, waiting=1))
        on_step(DecommissionStep(left=0, moving=0, waiting=0))

    monkeypatch.setattr("highwater.embed.clients.nodes.decommission", decommission)
    code, out, _ = highwater("node", "decommission", "4", "--moves", "2", "--controller", "c:1")
    assert (code, calls) == (0, [("c:1", 4, 2)])
    assert out.splitlines() == [
        "node 4: 3 replicas left, 2 moving, 1 wait for a node to go to",
        "node 4: 0 replicas left, 0 moving",
        "node 4 holds nothing any more; stop it, then: highwater node remove 4",
    ]


def test_too_few_nodes_are_an_operator_error(highwater, monkeypatch):
    def decommission(*_, **__):
        raise UsageError("without node 4 there are 2 nodes left, too few for t (3 replicas)")

    monkeypatch.setattr("highwater.embed.clients.nodes.decommission", decommission)
    code, _, err = highwater("node", "decommission", "4", "--controller", "c:1")
    assert code == 2
    assert "too few for t (3 replicas)" in err


def test_a_decommission_is_cancelled(highwater, monkeypatch):
    step = DecommissionStep(left=5, moving=1, waiting=0)
    monkeypatch.setattr(
        "highwater.embed.clients.nodes.recommission", lambda _address, _number: step
    )
    code, out, _ = highwater("node", "decommission", "4", "--cancel", "--controller", "c:1")
    assert code == 0
    assert out == "node 4 takes new replicas again; 5 replicas left, 1 moving\n"


def test_remove_finds_the_controller_by_the_data_directory(highwater, monkeypatch, tmp_path):
    (tmp_path / "controller.address").write_text("127.0.0.1:77")
    removed = []
    monkeypatch.setattr("highwater.embed.clients.nodes.remove", lambda *told: removed.append(told))
    code, out, _ = highwater("node", "remove", "4", "--data-dir", str(tmp_path))
    assert (code, out) == (0, "node 4 is forgotten\n")
    assert removed == [("127.0.0.1:77", 4)]


@pytest.mark.parametrize("moves", ["0", "1001", "x"])
def test_invalid_numbers_of_moves(highwater, moves):
    code, _, _ = highwater("node", "decommission", "4", "--moves", moves, "--controller", "c:1")
    assert code == 2
