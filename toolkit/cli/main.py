"""The ``hqtool`` command: finds the subcommand, and turns what it raises into a message and an exit code."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import click

from toolkit.cli.context import Session
from toolkit.model.errors import EnvironmentUnfitError, ExitCode, HqError, UsageError

# Subcommand -> (module, one line for --help). Modules are imported only when their command runs.
COMMANDS = {
    "pins": ("pins", "List the vLLM releases that the series supports."),
    "topics": ("topics", "List the topics of the series; write PATCHES.md."),
    "fetch": ("fetch", "Download a pinned vLLM and verify it."),
    "apply": ("apply", "Write a patched source tree."),
    "check": ("check", "Say whether a tree, a wheel or an installation is pristine, patched or modified."),
    "build-kernels": ("build_kernels", "Compile the topics' CUDA sources."),
    "build-wheel": ("build_wheel", "Build the patched vLLM wheel."),
    "wheel": ("wheel", "Explain what a built wheel changes."),
    "cache": ("cache", "Show or empty the download cache."),
}


class LazyGroup(click.Group):
    """A group whose subcommands are imported on use, so that ``--help`` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the subcommands in the order of the work, not of the alphabet."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one subcommand's module and return its command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"toolkit.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="hqtool")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
@click.option(
    "--patchsets",
    type=click.Path(path_type=Path),
    envvar="HQTOOL_PATCHSETS",
    metavar="DIR",
    help="Use this series instead of the installed one.",
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    envvar="HQTOOL_CACHE",
    metavar="DIR",
    help="Keep downloads and compiled kernels here.",
)
@click.pass_context
def group(ctx: click.Context, quiet: bool, patchsets: Path | None, cache: Path | None) -> None:
    """Build a patched vLLM wheel for one consumer GPU, and carry the patches to the next vLLM.

    Exit codes: 0 fine, 1 findings, 2 usage, 3 this machine is unfit, 130 interrupted.
    """
    ctx.obj = Session(quiet=quiet, patchsets=patchsets, cache=cache)


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit the process with its code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Run the command and return its exit code; print failures to standard error."""
    try:
        code = group.main(arguments, prog_name="hqtool", standalone_mode=False)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted: run the same command again to continue", err=True)
        return int(ExitCode.INTERRUPTED)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return int(ExitCode.USAGE)
    except SystemExit:
        # So click leaves when nobody reads the output any more (hqtool ... | head), with the code of a finding.
        return int(ExitCode.OK)
    except (HqError, click.ClickException, OSError) as error:
        return _failed(_told(error), as_json="--json" in arguments)
    return code if isinstance(code, int) else int(ExitCode.OK)


def _told(error: HqError | click.ClickException | OSError) -> HqError:
    """Return the failure as one with cause and fix."""
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "hqtool"
        return UsageError(error.format_message(), fix=f"{command} --help shows what is accepted")
    if isinstance(error, OSError):
        what = f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")
        return EnvironmentUnfitError(what, fix=_os_fix(error))
    return error


def _failed(error: HqError, *, as_json: bool) -> int:
    click.echo(str(error), err=True)
    if as_json:
        from toolkit.cli.output import error_envelope

        click.echo(error_envelope(error))
    return int(error.exit_code)


def _os_fix(error: OSError) -> str:
    import errno

    fixes = {
        errno.ENOSPC: "free some space (hqtool cache shows what the cache holds), or choose another folder",
        errno.EDQUOT: "free some of your quota, or choose another folder",
        errno.EACCES: "choose a folder that you may write, or change its permissions",
        errno.EROFS: "choose a folder on a file system that is not read-only",
        errno.EPERM: "choose a folder that you may write, or change its permissions",
    }
    return fixes.get(error.errno or 0, "check the path, then run the same command again")


if __name__ == "__main__":
    main()
