"""`highwater-spark`: the jobs of `highwater.spark.jobs`, one command each."""

import typer

from highwater.spark.jobs import audit, crawlers, load, mirror, ranking, replay, report, watch

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.command("load")(load.command)
app.command("audit")(audit.command)
app.command("report")(report.command)
# Its name while it was the only job; scripts may have it.
app.command("access-log", hidden=True)(report.command)
app.command("replay")(replay.command)
app.command("watch")(watch.command)
app.command("ranking")(ranking.command)
app.command("crawlers")(crawlers.command)
app.command("mirror")(mirror.command)


@app.callback()
def _jobs() -> None:
    """Spark jobs over Highwater topics."""


def main() -> None:
    """The console script."""
    app()


if __name__ == "__main__":
    main()
