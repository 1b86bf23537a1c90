"""Transactional clients that are programs of their own: franz-go by its driver, Java's by a program and a
tool of Kafka's, and librdkafka in another process."""

from __future__ import annotations

import base64
import json
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence

from tests.conformance.clients.go_drivers import go_driver
from tests.conformance.clients.line_process import LineProcess, ProgramError
from tests.robustness.faults.transactions.clients import CALL_S, PATIENCE_S, TRANSACTION_TIMEOUT_S
from tests.robustness.faults.transactions.copies import CopyHistory
from tests.robustness.faults.transactions.copying import PREFIX
from tests.robustness.faults.transactions.ledger import Outcome
from tests.support.frameworks import program_command
from tests.support.java_tools import TRANSACTIONAL_MESSAGE_COPIER, java_command

_ANSWER_S_MAX = 3 * PATIENCE_S
"""The driver's limit for a transaction, for its abort, and for the next client."""
_LOOK_S = 0.1
_TELLER_MODULE = "tests.robustness.faults.transactions.teller_process"
_AGAIN_S = 0.5
_STARTS_MAX = 60
"""A copier of Java's ends at the end of its input, and when it is fenced."""


class ProgramClient:
    """A teller's client whose producers live in a program. Implements `TransactionalClient`: the program
    reads a transaction from each line, answers what became of it, and replaces producers itself.

    The process is killed by `kill`, and started with the same command by the next `transact`.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.replaced: list[str] = []
        self._command = command
        self._answers: queue.Queue[dict[str, str]] = queue.Queue()
        self._process: LineProcess | None = None

    def transact(self, records: Sequence[tuple[int, bytes]], *, abort: bool) -> Outcome:
        self.begin(records, abort=abort)
        return self.outcome()

    def begin(
        self, records: Sequence[tuple[int, bytes]], *, abort: bool, hold: bool = False
    ) -> None:
        """Gives the program a transaction. If it is to hold it, `outcome` is OPEN when its records are
        written, and it never ends the transaction.
        """
        messages = [
            {"partition": partition, "key": None, "value": base64.b64encode(value).decode()}
            for partition, value in records
        ]
        order = {"abort": abort, "messages": messages, **({"hold": True} if hold else {})}
        if self._process is None:
            self._answers = queue.Queue()
            self._process = LineProcess(self._command, on_line=self._taking(self._answers))
        self._process.write_line(json.dumps(order))

    def outcome(self) -> Outcome:
        """What became of the transaction that was begun."""
        assert self._process is not None
        deadline_s = time.monotonic() + _ANSWER_S_MAX
        while True:
            try:
                told = self._answers.get(timeout=_LOOK_S)
                break
            except queue.Empty:
                self._process.check()
                assert time.monotonic() < deadline_s, "the program does not answer"
        if "error" in told:
            self.replaced.append(told["error"])
        return Outcome(told["outcome"])

    @property
    def is_running(self) -> bool:
        """Whether there is a process that was not killed."""
        return self._process is not None

    def kill(self) -> None:
        """SIGKILL, whatever it is doing."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def close(self) -> None:
        if self._process is not None:
            self._process.close()

    @staticmethod
    def _taking(answers: queue.Queue[dict[str, str]]) -> Callable[[str], None]:
        return lambda line: answers.put(json.loads(line))


def franz_client(bootstrap: str, topic: str, transactional_id: str) -> ProgramClient:
    """A teller of franz-go: transaction.version 2."""
    request = json.dumps({"topic": topic, "transactional_id": transactional_id})
    return ProgramClient([*go_driver("franz"), "transact", bootstrap, request])


def java_client(
    bootstrap: str,
    topic: str,
    transactional_id: str,
    *,
    timeout_s: float = TRANSACTION_TIMEOUT_S,
) -> ProgramClient:
    """A teller of Kafka's own client (tools/frameworks/Teller.java): transaction.version 2."""
    request = _request(topic, transactional_id, timeout_s)
    return ProgramClient(program_command("Teller", bootstrap, json.dumps(request)))


def librdkafka_client(
    bootstrap: str,
    topic: str,
    transactional_id: str,
    *,
    timeout_s: float = TRANSACTION_TIMEOUT_S,
) -> ProgramClient:
    """A teller of librdkafka in a process of its own: transaction.version 1."""
    request = _request(topic, transactional_id, timeout_s)
    return ProgramClient([sys.executable, "-m", _TELLER_MODULE, bootstrap, json.dumps(request)])


def _request(topic: str, transactional_id: str, timeout_s: float) -> dict[str, object]:
    return {
        "topic": topic,
        "transactional_id": transactional_id,
        "transaction_timeout_ms": int(timeout_s * 1000),
        "call_ms": int(CALL_S * 1000),
        "patience_ms": int(PATIENCE_S * 1000),
    }


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

    def kill(self) -> None:
        """SIGKILL, whatever it is doing; `start` begins again."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def spare(self) -> None:
        """Nobody kills it."""

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

    def spare(self) -> None:
        """Nobody kills it."""

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
