/** `switchyard pause` and `switchyard resume`. */

import type { Client } from '../../../client/client.ts'
import type { Gate } from '../../../protocol/explain.ts'
import { formatDuration } from '../../../protocol/format.ts'
import type { Run } from '../../../protocol/run.ts'
import { EXIT } from '../../process/exit.ts'
import { whileWatching } from '../../process/watching.ts'
import type { CommandContext } from '../command/run-command.ts'
import { findRunsLeft, type WaitingOptions, waitingMs, watchFleet } from '../workers/watch-fleet.ts'

/** With `--wait` it ends with 0 when nothing runs, and with 1 when the time was over before. */
export async function pause(context: CommandContext<WaitingOptions>): Promise<number | undefined> {
  const { client, output, options } = context
  const timeoutMs = waitingMs(context, 'switchyard pause')
  const answer = await client.pauseDispatch()
  if (options.wait === true) {
    output.note('paused: nothing is dispatched. Ctrl-C stops waiting, not the pause.')
    const code = await waitUntilIdle(context, timeoutMs)
    if (code !== undefined) return code
  }
  if (output.format === 'json') output.json(answer)
  else if (options.wait !== true) output.data('paused: nothing is dispatched, running work goes on')
  output.next('switchyard resume')
  return undefined
}

async function waitUntilIdle(
  context: CommandContext,
  timeoutMs: number | undefined,
): Promise<number | undefined> {
  const { output, present } = context
  const from = performance.now()
  return await whileWatching(context, 'the host stays paused, and its runs go on', async (signal) => {
    const end = await watchFleet(context, {
      signal,
      timeoutMs,
      // A run that was dispatched before the pause has a lease, and may begin yet.
      judge: ({ workers, runs }) => {
        const { count, text, key } = findRunsLeft(runs, workers, present().now)
        return count === 0
          ? { is: 'done', value: count }
          : { is: 'left', left: output.stderr.clean(text), key }
      },
    })
    if (end.is === 'done') {
      if (output.format !== 'json')
        output.data(`paused: nothing runs any more after ${formatDuration(performance.now() - from)}`)
      return undefined
    }
    const rest = end.left === '' ? '' : `: ${end.left}`
    output.note(`Not all have ended in ${formatDuration(timeoutMs ?? 0)}${rest}; the host stays paused.`)
    output.next('switchyard pause --wait', 'switchyard resume')
    return EXIT.refused
  })
}

/** On a terminal it says first what starts. Runs that wait for anything else go on waiting, and are only counted. */
export async function resume(context: CommandContext): Promise<number | undefined> {
  const { client, output, questions, options } = context
  if (questions.mayAsk && options.yes !== true && output.format !== 'json') {
    const queued = await client.listRuns({ status: ['queued'], limit: NAMED_MAX + 1 })
    if (queued.length > 0 && !(await questions.confirm(await question(client, queued), true))) {
      output.note('Nothing was changed.')
      return undefined
    }
  }
  const answer = await client.resumeDispatch()
  if (output.format === 'json') output.json(answer)
  else output.data('resumed: queued runs are dispatched')
  return undefined
}

/** So many runs are named in the question. */
const NAMED_MAX = 10

async function question(client: Client, queued: readonly Run[]): Promise<string> {
  const asked = queued.slice(0, NAMED_MAX)
  // A run that has ended meanwhile can't be explained.
  const gatesOf = ({ id }: Run) =>
    client.explainRun({ id }).then(
      ({ gates }) => gates,
      () => undefined,
    )
  const gates = await Promise.all(asked.map(gatesOf))
  const names = asked.filter((_, at) => startsOnResume(gates[at])).map(nameOf)
  const shown = names.join(', ')
  if (queued.length > NAMED_MAX) return `${shown === '' ? 'runs' : `${shown} and more`} may start. Go on?`
  const waiting = asked.length - names.length
  const others = waiting === 0 ? '' : `; ${waiting} ${waiting === 1 ? 'waits' : 'wait'} for something else`
  if (names.length === 0) return `no run starts${others}. Go on?`
  return `${names.length} ${names.length === 1 ? 'run starts' : 'runs start'}: ${shown}${others}. Go on?`
}

const nameOf = ({ ticket }: Run): string => ticket.identifier

/** A run that waits for a slot alone starts as soon as another one ends. */
const startsOnResume = (gates: readonly Gate[] | undefined): boolean =>
  gates?.every(
    ({ id, status }) => status === 'pass' || id === 'capacity' || (id === 'policy' && status === 'stop'),
  ) === true
