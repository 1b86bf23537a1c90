"""One module a job; each is a command of `highwater-spark` and a script for `spark-submit`."""
