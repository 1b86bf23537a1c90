"""The parts of `tools/run_demo.py`: broker, producer, consumer, Spark jobs, checks and output."""
