/** The commands of every day, and the small ones around them. */
import { Argument, Command, Option } from '@commander-js/extra-typings'
import { DEFAULT_DETACH_KEYS } from '../attach/detach-keys.ts'
import { runCommand } from '../client/run-command.ts'
import { clientCommand } from './client-options.ts'
import { RUN_PHASES } from './phases.ts'

export const statusCommand = () =>
  clientCommand('status', 'Show what runs, what waits and what needs you')
    .option('--watch', 'print it anew whenever something changes')
    .action((options) =>
      runCommand(options, async (context) => (await import('../commands/status.ts')).status(context)),
    )

export const startCommand = () =>
  clientCommand('start', 'Queue a ticket, or a new one made from words')
    .argument('<ticket-or-words...>', 'tickets, or the title of a new one in quotes')
    .option('--repo <key>', 'the repository of a new ticket')
    .option('--description <text>', 'the description of a new ticket; - reads standard input')
    .option('--instructions <text>', 'words for the agent; - reads standard input')
    .option('--agent <name>', 'claude, codex or gemini')
    .option('--model <name>', 'the model of the agent')
    .option('--watch', 'wait until it has ended')
    .action((names, options) =>
      runCommand(options, async (context) => (await import('../commands/start.ts')).start(context, names)),
    )

export const logsCommand = () =>
  clientCommand('logs', "Print a run's log from its first line; -f follows")
    .argument('<run>', 'a run, or its ticket')
    .option('-f, --follow', 'go on until the run has ended')
    .option('--since <time>', 'only from then on: 90s, 30m, 3d, a date or an instant')
    .option('--tail <n>', 'only the last lines')
    .addOption(new Option('--phase <phase>', 'only what happened in it').choices(RUN_PHASES))
    .addOption(new Option('--stream <stream>', 'only this stream').choices(['stdout', 'stderr', 'system']))
    .option('--tools', "also what the agent's tools printed")
    .action((name, options) =>
      runCommand(options, async (context) => (await import('../commands/logs.ts')).logs(context, name)),
    )

export const explainCommand = () =>
  clientCommand('explain', 'Say why it waits or failed, gate by gate')
    .argument('<ticket-or-run>', 'what waits')
    .option('--all', 'show each gate, also those that pass')
    .action((name, options) =>
      runCommand(options, async (context) => (await import('../commands/explain.ts')).explain(context, name)),
    )

export const topCommand = () =>
  clientCommand('top', 'Watch runs and workers on a live board').action((options) =>
    runCommand(options, async (context) => (await import('../commands/top.ts')).top(context)),
  )

export const pauseCommand = () =>
  clientCommand('pause', 'Stop dispatching runs')
    .option('--wait', 'until nothing runs any more')
    .option('--timeout <time>', 'with --wait, give up after: 90s, 30m, 3d, or at an instant')
    .action((options) =>
      runCommand(options, async (context) => (await import('../commands/pause.ts')).pause(context)),
    )

export const resumeCommand = () =>
  clientCommand('resume', 'Dispatch runs again').action((options) =>
    runCommand(options, async (context) => (await import('../commands/pause.ts')).resume(context)),
  )

export const ticketsCommand = () =>
  clientCommand('tickets', 'Tickets that are eligible now')
    .argument('[ticket]', 'one ticket')
    .action((name, options) =>
      runCommand(options, async (context) => (await import('../commands/tickets.ts')).tickets(context, name)),
    )
    .addCommand(
      clientCommand('list', 'Tickets that are eligible now').action((options) =>
        runCommand(options, async (context) => (await import('../commands/tickets.ts')).tickets(context)),
      ),
    )
    .addCommand(
      clientCommand('show', 'One ticket')
        .argument('<ticket>')
        .action((name, options) =>
          runCommand(options, async (context) =>
            (await import('../commands/tickets.ts')).tickets(context, name),
          ),
        ),
    )
    .addCommand(
      clientCommand('start', 'Queue tickets')
        .argument('<ticket...>')
        .action((names, options) =>
          runCommand(options, async (context) =>
            (await import('../commands/start.ts')).startTickets(context, names),
          ),
        ),
    )
    .addCommand(
      clientCommand('create', 'Make a ticket where tickets live')
        .argument('<title>')
        .option('--repo <key>', 'the repository')
        .option('--description <text>', 'the description; - reads standard input')
        .addOption(new Option('--priority <n>', '1 is urgent, 4 is low').choices(['1', '2', '3', '4']))
        .option('--label <label...>', 'labels of the ticket')
        .option('--no-start', 'leave it where it is not eligible')
        .action((title, options) =>
          runCommand(options, async (context) =>
            (await import('../commands/start.ts')).createTicket(context, title),
          ),
        ),
    )

export const apiCommand = () =>
  clientCommand('api', 'Send one request to the host')
    .addArgument(new Argument('<method>').choices(['GET', 'POST', 'PUT', 'DELETE']))
    .argument('<path>', 'like /api/runs?limit=3')
    .option('--body <json>', 'sent as JSON; - reads standard input')
    .action((method, path, options) =>
      runCommand(options, async (context) => (await import('../commands/api.ts')).api(context, method, path)),
    )

export const pathsCommand = () =>
  clientCommand('paths', 'Say where files are').action((options) =>
    runCommand(options, async (context) => (await import('../commands/paths.ts')).paths(context)),
  )

export const versionCommand = () =>
  clientCommand('version', 'Say which version this is').action((options) =>
    runCommand(options, async (context) => (await import('../commands/paths.ts')).version(context)),
  )

export const attachCommand = () =>
  new Command('attach')
    .exitOverride()
    .description('Open the session of a finished run in this terminal')
    .argument('<run>', 'a run, or its ticket')
    .option('--data-dir <path>', 'whose host is asked')
    .option('--detach-keys <keys>', 'what ends it, one key after the other', DEFAULT_DETACH_KEYS)
    .option('--keep', 'on detaching, leave the sandbox running until nobody has looked at it for a while')
    .option(
      '--no-tty',
      'pass standard input and output on as they are, without a terminal; the end of the input is passed on as Ctrl-D',
    )
    .addHelpText(
      'after',
      `
It ends with the session's own exit code, 0 when you detach, 1 when there is no session for you, 69 without a host.

Environment:
  SWITCHYARD_URL, SWITCHYARD_TOKEN_FILE, SWITCHYARD_HOST_USER
                           another host than that of the data directory`,
    )
    .action(async (name, options) => {
      const { attach } = await import('../commands/attach.ts')
      await attach(name, options)
    })
