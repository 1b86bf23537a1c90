"""The parts of `tools/run_demo.py`: broker, producer, consumer, Spark job, checks and output."""
