"""PROVISIONAL until storage.log_manager lands."""

import json
from pathlib import Path

from highwater.partition.membership import NodeIdentity
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.environment import InlineEnvironment
from highwater.partition.storage.log import PartitionLog


class NodeLogs:
    def __init__(self, config, *, clock, loop, log, on_dir_failure):
        self.config = config
        self.clock = clock
        self.env = InlineEnvironment()
        self.all_dirs_failed = False
        self.logs = []

    def open(self):
        d = Path(self.config.log_dirs[0])
        d.mkdir(parents=True, exist_ok=True)
        self.meta = d / "provisional.json"
        known = json.loads(self.meta.read_text()) if self.meta.exists() else {}
        return NodeIdentity(
            node_id=known.get("node_id", self.config.node_id),
            cluster_id=known.get("cluster_id", ""),
            previous_node_epoch=known.get("node_epoch", -1),
            clean_shutdown=False,
        )

    def registered(self, membership):
        self.meta.write_text(
            json.dumps(
                {
                    "node_id": membership.node_id,
                    "cluster_id": membership.cluster_id,
                    "node_epoch": membership.node_epoch,
                }
            )
        )

    def start_maintenance(self, tasks):
        pass

    def open_log(self, topic, partition):
        log = PartitionLog.open(
            Path(self.config.log_dirs[0]) / f"{topic.name}-{partition}",
            topic=topic.name,
            partition=partition,
            config=LogConfig(),
            clock=self.clock,
            environment=self.env,
        )
        self.logs.append(log)
        return log, 0

    def delete_log(self, log):
        pass

    def reconfigure(self, log, topic):
        pass

    def set_broker_configs(self, configs):
        pass

    def fail_dir(self, i, e):
        print(e)

    async def close(self):
        for log in self.logs:
            log.close(clean=True)
