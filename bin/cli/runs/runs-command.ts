/**
 * The noun `runs`, and the command `logs`. The verbs that are exported also stand at the top of the tree.
 *
 * `runs.ts` is the place to begin. Whatever a command says of a run lives here; what starts one is in `tickets/`.
 */
import { Option } from '@commander-js/extra-typings'
import { clientCommand } from '../command/client-options.ts'
import { clientAction, runCommand } from '../command/run-command.ts'
import { orMeantVerb } from '../command/usage-errors.ts'

const loadRuns = () => import('./runs.ts')
const loadWait = () => import('./wait.ts')
const loadRunFiles = () => import('./run-files.ts')
const loadLogs = () => import('./logs.ts')
const loadRunActions = () => import('./run-actions.ts')

/** The phases of a run that a log can be narrowed to: the states of the run that writes one. */
export const RUN_PHASES = ['preparing', 'running', 'finalizing'] as const
export type ShownPhase = (typeof RUN_PHASES)[number]

const STATUSES = ['queued', 'preparing', 'running', 'finalizing', 'completed', 'failed', 'cancelled'] as const

export const runsCommand = () =>
  clientCommand('runs', 'What is worked on')
    .argument('[run]', 'one run, or its ticket')
    .option('--all', 'all finished runs as well')
    .action((name, options, noun) =>
      runCommand(options, async (context) => {
        const runs = await loadRuns()
        if (name === undefined) return await runs.list(context)
        return await orMeantVerb(noun, [name], () => runs.show(context, name))
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
    .action(clientAction(loadRuns, ({ list }, context) => list(context)))

const showVerb = () =>
  clientCommand('show', 'One run in full')
    .argument('<run>')
    .action(clientAction(loadRuns, ({ show }, context, name) => show(context, name)))

const waitVerb = () =>
  clientCommand('wait', 'Block until they end')
    .argument('<run...>')
    .option('--timeout <time>', 'give up after: 90s, 30m, 3d, or at an instant')
    .action(clientAction(loadWait, ({ wait }, context, names) => wait(context, names)))

const openVerb = () =>
  clientCommand('open', 'Open its pull request in a browser')
    .argument('<run>')
    .action(clientAction(loadRunFiles, ({ open }, context, name) => open(context, name)))

const artifactsVerb = () =>
  clientCommand('artifacts', 'List or save its files')
    .argument('<run>')
    .argument('[name]', 'the file to save; without it all are listed')
    .option('--to <path>', 'where it is saved; - writes it to standard output')
    .action(
      clientAction(loadRunFiles, ({ artifacts }, context, name, file) => artifacts(context, name, file)),
    )

const exportVerb = () =>
  clientCommand('export', 'Write its events as JSON Lines')
    .argument('<run>')
    .action(clientAction(loadRunFiles, ({ exportEvents }, context, name) => exportEvents(context, name)))

const plainVerb = (verb: 'cancel' | 'release' | 'discard', summary: string) =>
  clientCommand(verb, summary)
    .argument('<run...>')
    .action(clientAction(loadRunActions, (actions, context, names) => actions[verb](context, names)))

export const cancelVerb = () => plainVerb('cancel', 'End it, keep what it did')

export const retryVerb = () =>
  clientCommand('retry', 'Queue it again')
    .argument('<run...>')
    .option('--instructions <text>', 'words for the agent; - reads standard input')
    .action(clientAction(loadRunActions, ({ retry }, context, names) => retry(context, names)))

const publishVerb = () =>
  clientCommand('publish', 'Publish its finished work that waits in a sandbox')
    .argument('<run...>')
    .option('--anyway', 'also when it holds what looks like keys')
    .action(clientAction(loadRunActions, ({ publish }, context, names) => publish(context, names)))

export const followUpVerb = () =>
  clientCommand('followup', 'Look after its pull request')
    .argument('<run...>')
    .option('--instructions <text>', 'words for the agent; - reads standard input')
    .action(clientAction(loadRunActions, ({ followUp }, context, names) => followUp(context, names)))

export const releaseVerb = () => plainVerb('release', 'Stop its resumed sandbox, keep the disk')

export const discardVerb = () => plainVerb('discard', 'Delete its sandbox now')

const acknowledgeVerb = () =>
  clientCommand('acknowledge', 'Say that you know which runs are lost with a damaged database').action(
    clientAction(loadRunActions, ({ acknowledge }, context) => acknowledge(context)),
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
    .action(clientAction(loadLogs, ({ logs }, context, name) => logs(context, name)))
