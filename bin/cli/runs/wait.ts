/** `switchyard runs wait`: blocks until runs have ended, and tells each change of state on the way. */

import { productName, withAgentNames } from '../../../client/agent-names.ts'
import { beginningOf } from '../../../client/run-beginning.ts'
import { changedNothing, UNCHANGED_WORDS } from '../../../protocol/changed-nothing.ts'
import { formatDuration } from '../../../protocol/format.ts'
import type { Run } from '../../../protocol/run.ts'
import { formatCost } from '../../output/amounts.ts'
import { padEnd } from '../../output/text-width.ts'
import { formatClockSeconds, parseTimeout } from '../../output/times.ts'
import { EXIT, unwrapOrExit } from '../../process/exit.ts'
import { whileWatching } from '../../process/watching.ts'
import { findRuns } from '../command/names.ts'
import type { ClientOptions, CommandContext } from '../command/run-command.ts'
import { watchRuns } from './watch-runs.ts'

export interface WaitOptions extends ClientOptions {
  readonly timeout?: string | undefined
}

export async function wait(
  context: CommandContext<WaitOptions>,
  names: readonly string[],
): Promise<number | undefined> {
  const { client, options, present } = context
  const { timeout } = options
  const ms = timeout === undefined ? undefined : unwrapOrExit(parseTimeout(timeout, '--timeout', present()))
  return await waitForRuns(context, await findRuns(client, names), { timeoutMs: ms })
}

interface WaitSettings {
  readonly timeoutMs?: number | undefined
  /** The end is one more line of the course, with its time; otherwise a line that names the run. */
  readonly isCourse?: boolean
}

/** Returns the exit code: 0 when all have completed. */
export async function waitForRuns(
  context: CommandContext,
  runs: readonly Run[],
  { timeoutMs, isCourse = false }: WaitSettings = {},
): Promise<number | undefined> {
  const names = runs.map(({ ticket }) => ticket.identifier).join(', ')
  return await whileWatching(context, `${names} ${runs.length === 1 ? 'goes' : 'go'} on`, async (signal) => {
    const { allEnded, runs: latest } = await watchRuns(context.connection, runs, {
      signal,
      timeoutMs,
      onChange: (run, provider) => reportState(context, run, { isNamed: runs.length > 1, provider }),
      onEnd: (run) => {
        const isNamed = runs.length > 1
        const end = isCourse ? describeLastState(context, run, isNamed) : describeEnd(context, run)
        context.output.outcomeLine(run, run.id, end)
      },
      onLost: () => context.output.warn('connection lost, trying again'),
    })
    if (!allEnded) {
      context.output.note(`Not all have ended in ${formatDuration(timeoutMs ?? 0)}.`)
      return EXIT.refused
    }
    return latest.every(({ status }) => status === 'completed') ? EXIT.done : EXIT.refused
  })
}

interface StateFacts {
  /** Several runs are watched. */
  readonly isNamed: boolean
  readonly provider: string | undefined
}

function reportState({ output, present }: CommandContext, run: Run, { isNamed, provider }: StateFacts): void {
  const { now, offset } = present()
  const name = isNamed ? `${run.ticket.identifier} ` : ''
  const { status, queueReason, sandbox } = run
  const why = queueReason === undefined ? '' : `: ${withAgentNames(queueReason)}`
  const where = status === 'preparing' && sandbox.workerName !== undefined ? ` on ${sandbox.workerName}` : ''
  const agent = status === 'running' && provider !== undefined ? `, ${productName(provider)}` : ''
  output.note(
    output.stderr.clean(`${formatClockSeconds(now, offset)} ${name}${status}${where}${agent}${why}`),
  )
}

/** The reasons and addresses of several runs stand in one column; most durations have at most six characters. */
const END_COLUMNS = 26

/** `ENG-240 completed in 5m26s  https://github.com/acme/web/pull/92`. */
function describeEnd({ output }: CommandContext, run: Run): string {
  const { stdout } = output
  const end = stdout.clean(`${run.ticket.identifier} ${run.status}${tookOf(run)}`)
  const more = moreOf(run)
  if (more === undefined) return end
  return `${stdout.isTerminal ? padEnd(end, END_COLUMNS) : end}  ${stdout.clean(more)}`
}

/** `15:39:12 completed in 6m10s, ~$0.52, https://github.com/acme/api/pull/93`. */
function describeLastState({ output, present }: CommandContext, run: Run, isNamed: boolean): string {
  const { now, offset } = present()
  const name = isNamed ? `${run.ticket.identifier} ` : ''
  const cost = run.costTotals === undefined ? undefined : formatCost(run.costTotals)
  const facts = [`${run.status}${tookOf(run)}`, cost, moreOf(run)].filter((fact) => fact !== undefined)
  return output.stdout.clean(`${formatClockSeconds(now, offset)} ${name}${facts.join(', ')}`)
}

function tookOf(run: Run): string {
  if (run.finishedAt === undefined) return ''
  const from = Date.parse(run.startedAt ?? beginningOf(run))
  return ` in ${formatDuration(Date.parse(run.finishedAt) - from)}`
}

function moreOf(run: Run): string | undefined {
  if (changedNothing(run)) return UNCHANGED_WORDS
  return run.status === 'completed' ? run.prUrl : run.error
}
