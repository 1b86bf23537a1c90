"""The parts of `tools/run_demo.py`: a broker, a log through it and back, a Spark job, a report."""
