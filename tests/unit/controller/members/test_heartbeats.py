from highwater.controller.members.heartbeats import HeartbeatResult, NodeHeartbeat
from highwater.model.ids import NodeId


def test_a_node_with_nothing_to_report_says_that_all_is_well():
    """Nodes of older versions leave out what they do not know."""
    beat = NodeHeartbeat(node_id=NodeId(1), node_epoch=2, applied_revision=3)
    assert not beat.wants_shutdown
    assert not beat.waits_for_gateway
    assert (beat.failed_log_dirs, beat.offline_replicas, beat.full_replicas) == ((), {}, {})
    answer = HeartbeatResult()
    assert (answer.refusal, answer.fenced, answer.may_shut_down) == (None, False, False)
