/** `switchyard workers drain`: no new runs for a worker, and with `--wait` until it has none left. */
import { formatDuration } from '../../core/format-duration.ts'
import { quoteWord } from '../../protocol/quote-word.ts'
import type { WorkerView } from '../../protocol/worker.ts'
import { findWorker } from '../client/names.ts'
import type { CommandContext } from '../client/run-command.ts'
import {
  findRunsLeft,
  type SeenFleet,
  type WaitingOptions,
  waitingMs,
  watchFleet,
} from '../client/watch-fleet.ts'
import { whileWatching } from '../client/watching.ts'
import { EXIT, ExitError } from '../exit.ts'
import { printChanged } from './worker-actions.ts'

export async function drain(
  context: CommandContext<WaitingOptions>,
  name: string,
): Promise<number | undefined> {
  const { client, output, options } = context
  const ms = waitingMs(context, `switchyard workers drain ${quoteWord(name)}`)
  const worker = await findWorker(client, name)
  const fleet = await client.drainWorker({ id: worker.id })
  if (options.wait !== true) {
    printChanged(context, fleet, worker.id, (each) => `${each.name} drains: no new runs.`)
    return undefined
  }
  output.note(`${worker.name} drains: no new runs. Ctrl-C stops waiting, not the drain.`)
  return await waitUntilEmpty(context, worker, ms)
}

async function waitUntilEmpty(
  context: CommandContext,
  worker: WorkerView,
  timeoutMs: number | undefined,
): Promise<number | undefined> {
  const { output } = context
  const { id, name } = worker
  const from = performance.now()
  return await whileWatching(context, `the drain of ${name} goes on`, async (signal) => {
    const end = await watchFleet(context, {
      signal,
      timeoutMs,
      judge: (seen) => judgeWorker(context, worker, seen),
    })
    if (end.is === 'left') {
      const rest = end.left === '' ? '' : `: ${end.left}`
      output.note(`${name} is not empty after ${formatDuration(timeoutMs ?? 0)}${rest}; its drain goes on.`)
      output.next(
        `switchyard workers drain ${quoteWord(name)} --wait`,
        `switchyard workers enable ${quoteWord(name)}`,
      )
      return EXIT.refused
    }
    if (output.format === 'json') output.json(end.value)
    else if (output.format === 'id') output.data(id)
    else
      output.data(output.stdout.clean(`${name} is empty after ${formatDuration(performance.now() - from)}.`))
    output.next(`switchyard workers enable ${quoteWord(name)}`)
    return undefined
  })
}

/** A worker is empty when it has no run and no terminal left. A terminal of an earlier process of the host has no name. */
function judgeWorker(
  { output, present }: CommandContext,
  { id, name }: WorkerView,
  { workers, runs }: SeenFleet,
) {
  const found = workers.find((worker) => worker.id === id)
  if (found === undefined) throw new ExitError(EXIT.refused, `${name} was revoked`, 'switchyard workers')
  const { activeRuns, attachSessions = 0, attachedRuns = [] } = found
  if (activeRuns === 0 && attachSessions === 0) return { is: 'done' as const, value: found }
  const rest = findRunsLeft(runs, [found], present().now)
  const attached = attachedRuns.map((run) => runs.get(run)?.ticket.identifier ?? run)
  const names = attached.length === 0 ? '' : `: ${attached.join(', ')}`
  const open = `${attachSessions} ${attachSessions === 1 ? 'terminal' : 'terminals'}${names}`
  return {
    is: 'left' as const,
    left: output.stderr.clean(attachSessions === 0 ? rest.text : `${rest.text}; ${open}`),
    key: `${rest.key} ${open}`,
  }
}
