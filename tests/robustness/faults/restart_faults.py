"""Orderly restarts of everything, one after the other."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tests.robustness.faults.fault import Fault, Scene
from tests.support.process import wait_until
from tests.support.replicated.shape import Shape

NODE_PAUSE_S_MAX = 1.5
"""A leader that stops costs 0.3 s at most (F3), but here the node's next process starts beside the load.
Rarely a pause of 1.00 to 1.04 s is seen: for one second at most librdkafka's threads wait to be woken
(`rd_kafka_max_block_ms`).
"""
CONTROLLER_PAUSE_S_MAX = 1.0
"""Data flows on without a controller."""
GATEWAY_PAUSE_S_MAX = 1.5
"""Clients hear of the other gateway before they lose their connections: 0.03 to 0.13 s were seen, and rarely
librdkafka's second.
"""
_STANDBY_S_MAX = 30.0


@dataclass
class RollingRestart(Fault):
    """Each node, gateway and controller in turn is stopped in order, and started again.

    The next one follows when all replicas are in sync, the gateway accepts, and the controller is a
    standby. A rolling upgrade, with an old and a new version at the same time, is not tested: there
    is only one version yet.
    """

    rounds: int = 1

    id = "F30"
    title = "rolling restart of nodes, gateways and controllers"
    # Each kind has its own limit, which `inject` looks at.
    pause_s_max = None
    shape = Shape(gateways=2)

    def inject(self, scene: Scene) -> None:
        cluster = scene.cluster
        for _ in range(self.rounds):
            for node in cluster.node_ids:
                begun_s = time.monotonic()
                assert cluster.terminate_node(node) == 0
                cluster.restart_node(node)
                self._end_turn(scene, f"node-{node}", begun_s, NODE_PAUSE_S_MAX)
            for number in cluster.gateway_ids:
                begun_s = time.monotonic()
                assert cluster.process(f"gateway-{number}").stop() == 0
                cluster.start_gateway(number)
                self._end_turn(scene, f"gateway-{number}", begun_s, GATEWAY_PAUSE_S_MAX)
            # The active one comes last, so that others take over from it, and then it from them.
            for name in reversed(cluster.standing_controllers()):
                self._restart_controller(scene, name)

    def heal(self, scene: Scene) -> None:
        """Does nothing: all processes have been started again."""

    def _restart_controller(self, scene: Scene, name: str) -> None:
        cluster = scene.cluster
        begun_s = time.monotonic()
        standing = cluster.standing_controllers()
        assert name in standing
        assert cluster.process(name).stop() == 0
        assert name not in cluster.standing_controllers(), "it has left its office"
        cluster.process(name).start()
        wait_until(
            lambda: sorted(cluster.standing_controllers()) == sorted(standing),
            timeout_s=_STANDBY_S_MAX,
            what=f"{name} stands for election again",
        )
        self._end_turn(scene, name, begun_s, CONTROLLER_PAUSE_S_MAX)

    def _end_turn(self, scene: Scene, name: str, begun_s: float, pause_s_max: float) -> None:
        """Waits until the cluster is whole, and looks at how long producers had to wait."""
        scene.wait_whole()
        scene.progress()
        now_s = time.monotonic()
        pause_s, told = scene.workload.pause(since=begun_s, until=now_s)
        scene.note(f"{name}: {now_s - begun_s:.1f} s, pause {pause_s:.2f} s")
        assert pause_s <= pause_s_max, f"{name}: no acknowledgement: {told}"
