/**
 * `switchyard worker drain`: this machine's own worker gets no new runs, and with `--wait` until it has none left.
 *
 * The drain is in the worker's name, with its own credential. It ends when the worker starts again, or when an operator
 * enables the worker. A process that does not run has nothing in flight; an unconnected one may have, so it is waited for.
 */

import { existsSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import type { DemandPort, OwnDemand } from '../../../core/fleet/supervision.ts'
import { formatDuration } from '../../../protocol/format.ts'
import { quoteWord } from '../../../protocol/quote-word.ts'
import { findOwner } from '../../../store/lock.ts'
import type { Output } from '../../output/output.ts'
import { createOutput } from '../../output/output.ts'
import { localOffset, parseTimeout } from '../../output/times.ts'
import { resolveDataDir } from '../../process/data-dir.ts'
import { EXIT, ExitError, refusedError, unwrapOrExit, usageError } from '../../process/exit.ts'
import { whileWatching } from '../../process/watching.ts'
import { credentialFileOf, noteDrain, ownDemandClient, readNotedHost, withNotedTrust } from './own-worker.ts'
import { type HostChoice, resolveHost } from './resolve-host.ts'

export interface OwnDrainOptions extends HostChoice {
  readonly wait?: true
  readonly timeout?: string
  readonly dataDir?: string
}

const POLL_MS = 1_000

export async function ownDrain(options: OwnDrainOptions): Promise<void> {
  const output = createOutput({})
  const timeoutMs = readTimeout(options)
  const dataDir = resolveDataDir(options.dataDir, 'switchyard-worker')
  const choice =
    options.host === undefined ? { ...readNotedHost(dataDir), ...options } : withNotedTrust(dataDir, options)
  const route = resolveHost(choice, { warn: (_, message) => output.warn(message) })
  requireEnrolled(dataDir, choice)
  const demand = ownDemandClient(dataDir, route, 'worker')
  // First the note: a worker whose drain was applied must end it at its next start, however this process ends.
  await noteDrain(dataDir)
  if (options.wait !== true) {
    const answer = await demand.ask('drain')
    if (answer.is === 'unanswered')
      throw new ExitError(EXIT.unavailable, `the worker could not be drained: ${answer.reason}`)
    output.data(`This worker drains: no new runs; ${describeRest(answer.demand)}.`)
    return
  }
  const from = performance.now()
  const wait = (signal: AbortSignal) => waitUntilEmpty({ demand, dataDir, output, signal, timeoutMs, from })
  process.exitCode = (await whileWatching({ output }, 'the drain of this worker goes on', wait)) ?? EXIT.done
}

/** The host cannot know a worker that was never paired, so waiting for it would not end. */
function requireEnrolled(dataDir: string, { host = 'URL' }: HostChoice): void {
  if (existsSync(credentialFileOf(dataDir))) return
  const worker = `switchyard worker --host ${quoteWord(host)} --token-file FILE --data-dir ${quoteWord(dataDir)}`
  throw usageError(
    `no worker of the data directory ${dataDir} is enrolled`,
    `switchyard workers pair on the machine of the host, then here: ${worker}`,
  )
}

function readTimeout({ wait, timeout }: OwnDrainOptions): number | undefined {
  if (timeout === undefined) return undefined
  if (wait !== true) throw usageError('--timeout is for --wait')
  return unwrapOrExit(parseTimeout(timeout, '--timeout', { now: Date.now(), offset: localOffset }))
}

interface WaitContext {
  readonly demand: DemandPort
  readonly dataDir: string
  readonly output: Output
  readonly signal: AbortSignal
  readonly timeoutMs: number | undefined
  readonly from: number
}

async function waitUntilEmpty(context: WaitContext): Promise<number | undefined> {
  const { demand, dataDir, output, signal, timeoutMs, from } = context
  let isDrained = false
  let reported = ''
  const report = (text: string) => {
    if (text !== reported) output.note(text)
    reported = text
  }
  let rest = 'the host has not answered'
  for (;;) {
    signal.throwIfAborted()
    const answer = await demand.ask(isDrained ? 'read' : 'drain')
    signal.throwIfAborted()
    if (answer.is === 'unanswered') report(`The host does not answer: ${answer.reason}. Trying again.`)
    else {
      const { worker } = answer.demand
      if (isDrained && worker.state === 'active')
        throw refusedError('somebody enabled this worker again, so it is not drained any more')
      if (!isDrained) output.note('This worker drains: no new runs. Ctrl-C stops waiting, not the drain.')
      isDrained = true
      if (isEmpty(answer.demand, dataDir)) {
        output.data(`This worker is empty after ${formatDuration(performance.now() - from)}.`)
        return undefined
      }
      rest = describeRest(answer.demand)
      report(`${rest.slice(0, 1).toUpperCase()}${rest.slice(1)}.`)
    }
    if (timeoutMs !== undefined && performance.now() - from >= timeoutMs) {
      output.note(`This worker is not empty after ${formatDuration(timeoutMs)}: ${rest}; its drain goes on.`)
      return EXIT.refused
    }
    await pause(POLL_MS, undefined, { signal })
  }
}

const isEmpty = ({ worker }: OwnDemand, dataDir: string): boolean =>
  worker.connected ? worker.activeRuns === 0 && worker.attachSessions === 0 : findOwner(dataDir) === undefined

function describeRest({ worker }: OwnDemand): string {
  if (!worker.connected) return 'the worker is not connected, so the host does not know what it executes'
  const { activeRuns, attachSessions } = worker
  const runs = `${activeRuns} ${activeRuns === 1 ? 'run' : 'runs'}`
  const terminals = `${attachSessions} ${attachSessions === 1 ? 'terminal' : 'terminals'}`
  return `${runs} and ${terminals} left`
}
