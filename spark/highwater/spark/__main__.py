"""`highwater-spark`: the jobs of `highwater.spark.jobs`, one command each."""

import typer

from highwater.spark.jobs import access_log, audit, crawlers, load, ranking, replay, watch

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.command("load")(load.command)
app.command("audit")(audit.command)
app.command("access-log")(access_log.command)
app.command("replay")(replay.command)
app.command("watch")(watch.command)
app.command("ranking")(ranking.command)
app.command("crawlers")(crawlers.command)


@app.callback()
def _jobs() -> None:
    """Spark jobs over Highwater topics."""


def main() -> None:
    """The console script."""
    app()


if __name__ == "__main__":
    main()
