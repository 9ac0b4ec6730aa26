/**
 * The commands `status`, `explain`, `pause` and `resume`: what runs, why something waits, whether anything starts.
 *
 * `status.ts` is the place to begin; `status-lines.ts` has the lines, also for `top` on a small terminal.
 */
import { clientCommand } from '../command/client-options.ts'
import { clientAction } from '../command/run-command.ts'

const loadStatus = () => import('./status.ts')
const loadExplain = () => import('./explain.ts')
const loadPause = () => import('./pause.ts')

export const statusCommand = () =>
  clientCommand('status', 'Show what runs, what waits and what needs you')
    .option('--watch', 'print it anew whenever something changes')
    .action(clientAction(loadStatus, ({ status }, context) => status(context)))

export const explainCommand = () =>
  clientCommand('explain', 'Say why it waits or failed, gate by gate')
    .argument('<ticket-or-run>', 'what waits')
    .option('--all', 'show each gate, also those that pass')
    .action(clientAction(loadExplain, ({ explain }, context, name) => explain(context, name)))

export const pauseCommand = () =>
  clientCommand('pause', 'Stop dispatching runs')
    .option('--wait', 'until nothing runs any more')
    .option('--timeout <time>', 'with --wait, give up after: 90s, 30m, 3d, or at an instant')
    .action(clientAction(loadPause, ({ pause }, context) => pause(context)))

export const resumeCommand = () =>
  clientCommand('resume', 'Dispatch runs again').action(
    clientAction(loadPause, ({ resume }, context) => resume(context)),
  )
