"""Runs the cases of a part in processes: one that dies or stands still is a finding, and is started again."""
import importlib
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import pickle
import resource
import signal
import time
import traceback
import warnings

SECONDS_A_CASE = 60
BYTES = 8 << 30  # a wild shape must not take the machine down


def outcome(word, why=None, **more):
    """Of one case. `why`: what is wrong, where something is; `model`, `feed`: what to keep then; `label`: how to run it again."""
    return {"word": word, "why": why, **more}


def about_to_run(settings, what, model, feed):
    """In the process: what a death would be due to. `what`: the original, the optimizer, the result."""
    (pathlib.Path(settings["scratch"]) / f"{os.getpid()}.pickle").write_bytes(pickle.dumps((what, model.SerializeToString(), feed)))


def serve(connection, module, settings):
    """In the process: a job comes in, the outcomes of its cases go out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not settings.get("many"):  # sanitizers take address space at will
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    warnings.simplefilter("ignore")
    part = importlib.import_module(f"fuzz.{module}")
    connection.send(None)  # what is imported is there; the clock of the first case starts
    while (job := connection.recv()) is not None:
        try:
            outcomes = part.work(job, settings)
        except Exception:
            outcomes = [outcome("error of the fuzzer", traceback.format_exc()[-1500:])]
        connection.send(outcomes)


class Worker:
    """One process, and the job that it is at."""

    def __init__(self, module, settings):
        self.context, self.module, self.settings = multiprocessing.get_context("spawn"), module, settings
        self.start()

    def start(self):
        self.connection, other = self.context.Pipe()
        self.process = self.context.Process(target=serve, args=(other, self.module, self.settings), daemon=True)
        self.process.start()
        other.close()
        self.connection.recv()
        self.job = None

    def give(self, job):
        self.job, self.since = job, time.monotonic()
        self.connection.send(job)

    def late(self, seconds):
        return self.job is not None and time.monotonic() - self.since > seconds

    def stop(self):
        self.process.kill()
        self.process.join()
        self.connection.close()

    def again(self):
        """After a death or a stand-still."""
        self.stop()
        self.start()

    def ran(self):
        """What it was about to run, as an outcome has it."""
        path = pathlib.Path(self.settings["scratch"]) / f"{self.process.pid}.pickle"
        return dict(zip(("label", "model", "feed"), pickle.loads(path.read_bytes()))) if path.exists() else {}

    def ended(self, word, why):
        """The outcome of a death or a stand-still: ours, unless ONNX Runtime was at the original."""
        ran = self.ran()
        return outcome(f"ONNX Runtime: {word} on the original") if ran.get("label") == "the original, ORT" else outcome(word, why, **ran)

    def death(self):
        self.process.join(5)
        status = self.process.exitcode
        return self.ended("crash", f"the process ended with {signal.Signals(-status).name if status and status < 0 else status}")


def run(module, settings, jobs, count, cases_a_job=1, until=None):
    """Yields (job, its outcomes) as they come; no job begins after `until` (of time.monotonic())."""
    workers = [Worker(module, settings) for _ in range(count)]
    jobs, seconds = iter(jobs), SECONDS_A_CASE * cases_a_job

    def next_job(worker):
        job = next(jobs, None) if until is None or time.monotonic() < until else None
        worker.job = None
        if job is not None:
            worker.give(job)

    try:
        for worker in workers:
            next_job(worker)
        while busy := [w for w in workers if w.job is not None]:
            ready = multiprocessing.connection.wait([w.connection for w in busy], timeout=1)
            for worker in busy:
                job = worker.job
                if worker.connection in ready:
                    try:
                        outcomes = worker.connection.recv()
                    except (EOFError, OSError):
                        outcomes = [worker.death()]
                        worker.again()
                elif worker.late(seconds):
                    outcomes = [worker.ended("slow", f"over {seconds} s")]
                    worker.again()
                else:
                    continue
                yield job, outcomes
                next_job(worker)
    finally:
        for worker in workers:
            worker.stop()
