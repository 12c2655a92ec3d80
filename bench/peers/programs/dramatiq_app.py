"""Dramatiq: its own command line starts the processes and their threads."""

import os
import sys

import dramatiq
import witness
from dramatiq.brokers.redis import RedisBroker


class Finish(dramatiq.Middleware):
    def after_worker_shutdown(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        witness.finish()


broker = RedisBroker(url=f"unix://{os.environ['PEER_STORE']}")
broker.add_middleware(Finish())
dramatiq.set_broker(broker)


@dramatiq.actor
def noop() -> None:
    witness.called()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["fill", jobs]:
            for _ in range(int(jobs)):
                noop.send()
        case ["work", processes, threads]:
            from dramatiq.cli import main, make_argument_parser

            arguments = ["dramatiq_app", "--processes", processes, "--threads", threads]
            sys.exit(main(make_argument_parser().parse_args(arguments)))
