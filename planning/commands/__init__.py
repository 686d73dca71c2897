"""The commands behind ``headgate``, one module per group."""

from __future__ import annotations

import typer

from planning.commands import export, nodes, plans, runs, serving, streams

app = typer.Typer(
    help="Plans what a data stream may lose, so that its answers stay as good as they can be.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(streams.app, name="streams")
app.add_typer(serving.app, name="tokens")
app.command()(runs.plan)
app.command()(runs.simulate)
app.command()(plans.show)
app.command()(plans.history)
app.command()(plans.diff)
app.command()(plans.rollback)
app.command()(plans.verify)
app.command()(export.export)
app.command()(nodes.nodes)
app.command()(nodes.warm)
app.command()(serving.serve)
