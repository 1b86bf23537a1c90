"""Transactional clients that are programs of their own: franz-go by its driver, and Kafka's Java tool."""

from __future__ import annotations

import base64
import json
import queue
import threading
import time
from collections.abc import Sequence

from tests.conformance.clients.go_drivers import go_driver
from tests.conformance.clients.line_process import LineProcess, ProgramError
from tests.robustness.faults.transactions.clients import PATIENCE_S, TRANSACTION_TIMEOUT_S
from tests.robustness.faults.transactions.copies import CopyHistory
from tests.robustness.faults.transactions.copying import PREFIX
from tests.robustness.faults.transactions.ledger import Outcome
from tests.support.java_tools import TRANSACTIONAL_MESSAGE_COPIER, java_command

_ANSWER_S_MAX = 3 * PATIENCE_S
"""The driver's limit for a transaction, for its abort, and for the next client."""
_LOOK_S = 0.1
_AGAIN_S = 0.5
_STARTS_MAX = 60
"""A copier of Java's ends at the end of its input, and when it is fenced."""


class FranzClient:
    """franz-go. Implements `TransactionalClient`: the driver replaces its clients itself."""

    def __init__(self, bootstrap: str, topic: str, transactional_id: str) -> None:
        request = json.dumps({"topic": topic, "transactional_id": transactional_id})
        self.replaced: list[str] = []
        self._answers: queue.Queue[dict[str, str]] = queue.Queue()
        self._process = LineProcess(
            [*go_driver("franz"), "transact", bootstrap, request],
            on_line=lambda line: self._answers.put(json.loads(line)),
        )

    def transact(self, records: Sequence[tuple[int, bytes]], *, abort: bool) -> Outcome:
        messages = [
            {"partition": partition, "key": None, "value": base64.b64encode(value).decode()}
            for partition, value in records
        ]
        self._process.write_line(json.dumps({"abort": abort, "messages": messages}))
        deadline_s = time.monotonic() + _ANSWER_S_MAX
        while True:
            try:
                told = self._answers.get(timeout=_LOOK_S)
                break
            except queue.Empty:
                self._process.check()
                assert time.monotonic() < deadline_s, "the driver does not answer"
        if "error" in told:
            self.replaced.append(told["error"])
        return Outcome(told["outcome"])

    def close(self) -> None:
        self._process.close()


class FranzCopier:
    """franz-go's GroupTransactSession. Implements `Copier`."""

    def __init__(
        self,
        bootstrap: str,
        source: str,
        output: str,
        group: str,
        transactional_id: str,
        history: CopyHistory,
    ) -> None:
        self.name = transactional_id
        self._bootstrap = bootstrap
        self._history = history
        self._request = {
            "topic": source,
            "output": output,
            "group": group,
            "transactional_id": transactional_id,
            "prefix": PREFIX.decode(),
        }
        self._process: LineProcess | None = None

    def start(self) -> None:
        program = [*go_driver("franz"), "copy", self._bootstrap, json.dumps(self._request)]
        self._process = LineProcess(program, on_line=self._on_line)

    def stop(self) -> None:
        if self._process is not None:
            self._process.close()

    def summary(self) -> str:
        try:
            if self._process is not None:
                self._process.check()
        except ProgramError as error:
            return str(error)
        return "runs, or was stopped"

    def _on_line(self, line: str) -> None:
        told = json.loads(line)
        if "error" in told:
            self._history.replaced[self.name].append(told["error"])
        elif Outcome(told["outcome"]) is Outcome.COMMITTED:
            self._history.committed_s[self.name].append(time.monotonic())
        else:
            self._history.aborts[self.name] += 1


class JavaCopier(threading.Thread):
    """Kafka's TransactionalMessageCopier, which aborts a third of its transactions. It copies up to where
    its input ends when it gets its partitions, and is started again. Implements `Copier`."""

    def __init__(
        self,
        bootstrap: str,
        source: str,
        output: str,
        group: str,
        transactional_id: str,
        history: CopyHistory,
    ) -> None:
        super().__init__(name=transactional_id, daemon=True)
        self._command = java_command(
            TRANSACTIONAL_MESSAGE_COPIER,
            *("--broker-list", bootstrap, "--input-topic", source, "--output-topic", output),
            *("--input-partition", "0", "--group-mode", "--use-group-metadata"),
            *("--transactional-id", transactional_id, "--consumer-group", group),
            *("--transaction-size", "500", "--enable-random-aborts"),
            *("--transaction-timeout", str(int(TRANSACTION_TIMEOUT_S * 1000))),
        )
        self._history = history
        self._stopping = threading.Event()
        self._processed = 0
        self._starts = 0

    def run(self) -> None:
        while not self._stopping.is_set():
            self._starts += 1
            self._processed = 0
            process = LineProcess(self._command, on_line=self._on_line)
            try:
                while not self._stopping.wait(_AGAIN_S):
                    process.check()
            except ProgramError as error:
                if "ended with 0" not in str(error):
                    self._history.replaced[self.name].append(f"{error}\n{error.stderr[-500:]}")
            finally:
                process.close()
            if self._starts == _STARTS_MAX:
                self._history.errors[self.name].append("started too often")
                return

    def stop(self) -> None:
        self._stopping.set()
        if self.ident is not None:
            self.join(PATIENCE_S)

    def summary(self) -> str:
        return f"started {self._starts} times"

    def _on_line(self, line: str) -> None:
        told = json.loads(line)
        if told["totalProcessed"] > self._processed:
            self._processed = told["totalProcessed"]
            self._history.committed_s[self.name].append(time.monotonic())
