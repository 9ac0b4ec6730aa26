/** The noun `runs`. Those of its verbs that are exported also stand at the top of the tree. */
import { Option } from '@commander-js/extra-typings'
import { runCommand } from '../client/run-command.ts'
import { clientCommand } from './client-options.ts'

const STATUSES = ['queued', 'preparing', 'running', 'finalizing', 'completed', 'failed', 'cancelled'] as const

export const runsCommand = () =>
  clientCommand('runs', 'What is worked on')
    .argument('[run]', 'one run, or its ticket')
    .option('--all', 'all finished runs as well')
    .action((name, options) =>
      runCommand(options, async (context) => {
        const runs = await import('../commands/runs.ts')
        return name === undefined ? await runs.list(context) : await runs.show(context, name)
      }),
    )
    .addCommand(listVerb())
    .addCommand(showVerb())
    .addCommand(waitVerb())
    .addCommand(openVerb())
    .addCommand(artifactsVerb())
    .addCommand(exportVerb())
    .addCommand(cancelVerb())
    .addCommand(retryVerb())
    .addCommand(publishVerb())
    .addCommand(followUpVerb())
    .addCommand(releaseVerb())
    .addCommand(discardVerb())
    .addCommand(acknowledgeVerb())

const listVerb = () =>
  clientCommand('list', 'Unfinished runs and the newest finished ones, newest first')
    .addOption(new Option('--status <status...>', 'only these').choices(STATUSES))
    .option('--ticket <ticket>', 'only those of one ticket')
    .option('--limit <n>', 'how many at most')
    .option('--all', 'all finished runs as well')
    .action((options) =>
      runCommand(options, async (context) => (await import('../commands/runs.ts')).list(context)),
    )

const showVerb = () =>
  clientCommand('show', 'One run in full')
    .argument('<run>')
    .action((name, options) =>
      runCommand(options, async (context) => (await import('../commands/runs.ts')).show(context, name)),
    )

const waitVerb = () =>
  clientCommand('wait', 'Block until they end')
    .argument('<run...>')
    .option('--timeout <time>', 'give up after: 90s, 30m, 3d, or at an instant')
    .action((names, options) =>
      runCommand(options, async (context) => (await import('../commands/wait.ts')).wait(context, names)),
    )

const openVerb = () =>
  clientCommand('open', 'Open its pull request in a browser')
    .argument('<run>')
    .action((name, options) =>
      runCommand(options, async (context) => (await import('../commands/run-files.ts')).open(context, name)),
    )

const artifactsVerb = () =>
  clientCommand('artifacts', 'List or save its files')
    .argument('<run>')
    .argument('[name]', 'the file to save; without it all are listed')
    .option('--to <path>', 'where it is saved; - writes it to standard output')
    .action((name, file, options) =>
      runCommand(options, async (context) =>
        (await import('../commands/run-files.ts')).artifacts(context, name, file),
      ),
    )

const exportVerb = () =>
  clientCommand('export', 'Write its events as JSON Lines')
    .argument('<run>')
    .action((name, options) =>
      runCommand(options, async (context) =>
        (await import('../commands/run-files.ts')).exportEvents(context, name),
      ),
    )

export const cancelVerb = () =>
  clientCommand('cancel', 'End it, keep what it did')
    .argument('<run...>')
    .action((names, options) =>
      runCommand(options, async (context) =>
        (await import('../commands/run-actions.ts')).cancel(context, names),
      ),
    )

export const retryVerb = () =>
  clientCommand('retry', 'Queue it again')
    .argument('<run...>')
    .option('--instructions <text>', 'words for the agent; - reads standard input')
    .action((names, options) =>
      runCommand(options, async (context) =>
        (await import('../commands/run-actions.ts')).retry(context, names),
      ),
    )

const publishVerb = () =>
  clientCommand('publish', 'Publish its finished work that waits in a sandbox')
    .argument('<run...>')
    .option('--anyway', 'also when it holds what looks like keys')
    .action((names, options) =>
      runCommand(options, async (context) =>
        (await import('../commands/run-actions.ts')).publish(context, names),
      ),
    )

export const followUpVerb = () =>
  clientCommand('followup', 'Look after its pull request')
    .argument('<run...>')
    .option('--instructions <text>', 'words for the agent; - reads standard input')
    .action((names, options) =>
      runCommand(options, async (context) =>
        (await import('../commands/run-actions.ts')).followUp(context, names),
      ),
    )

export const releaseVerb = () =>
  clientCommand('release', 'Stop its resumed sandbox, keep the disk')
    .argument('<run...>')
    .action((names, options) =>
      runCommand(options, async (context) =>
        (await import('../commands/run-actions.ts')).release(context, names),
      ),
    )

export const discardVerb = () =>
  clientCommand('discard', 'Delete its sandbox now')
    .argument('<run...>')
    .action((names, options) =>
      runCommand(options, async (context) =>
        (await import('../commands/run-actions.ts')).discard(context, names),
      ),
    )

const acknowledgeVerb = () =>
  clientCommand('acknowledge', 'Say that you know which runs are lost with a damaged database').action(
    (options) =>
      runCommand(options, async (context) =>
        (await import('../commands/acknowledge.ts')).acknowledge(context),
      ),
  )
