/** The verbs that change the fleet: pair, rename, enable, revoke, drain. */

import { formatDuration } from '../../../protocol/format.ts'
import { quoteWord } from '../../../protocol/quote-word.ts'
import type { FleetResponse, WorkerView } from '../../../protocol/worker.ts'
import { formatClock } from '../../output/times.ts'
import { EXIT, refusedError } from '../../process/exit.ts'
import { whileWatching } from '../../process/watching.ts'
import { findWorker } from '../command/names.ts'
import type { CommandContext } from '../command/run-command.ts'
import { noteJoinCommand } from './join-keys.ts'
import { findRunsLeft, type SeenFleet, type WaitingOptions, waitingMs, watchFleet } from './watch-fleet.ts'

/** Only the token stands on standard output, so that a script may write it into a file. */
export async function pair(context: CommandContext): Promise<void> {
  const { client, output, present } = context
  const minted = await client.mintPairingToken()
  const { token, expiresAt } = minted
  if (output.format === 'json') {
    output.json(minted)
    return
  }
  output.data(token)
  output.note(
    `The token enrolls one machine until ${formatClock(Date.parse(expiresAt), present())}. On that machine write it into a file that only you can read, then:`,
  )
  await noteJoinCommand(context, '--token-file', minted)
}

export async function rename(context: CommandContext, name: string, newName: string): Promise<void> {
  const { client } = context
  const { id, name: oldName } = await findWorker(client, name)
  const fleet = await client.renameWorker({ id, body: { name: newName } })
  printChanged(context, fleet, id, (worker) => `${oldName} is called ${worker.name} now.`)
}

export async function enable(context: CommandContext, name: string): Promise<void> {
  const { client } = context
  const { id } = await findWorker(client, name)
  printChanged(context, await client.enableWorker({ id }), id, (worker) => `${worker.name} takes runs again.`)
}

export async function revoke(context: CommandContext, name: string): Promise<void> {
  const { client, output, questions, options } = context
  const worker = await findWorker(client, name)
  await questions.confirmLoss({
    loss: lossOf(worker),
    yes: options.yes,
    command: `switchyard workers revoke ${quoteWord(name)}`,
  })
  const fleet = await client.revokeWorker({ id: worker.id })
  output.outcome(fleet, worker.id, `${worker.name} is revoked.`)
}

function lossOf({ name, activeRuns }: WorkerView): string {
  const runs = activeRuns === 1 ? 'its run is' : `its ${activeRuns} runs are`
  const interrupted = activeRuns === 0 ? '' : `; ${runs} interrupted`
  return `this removes ${name} for good, with its credential and the sandboxes it keeps${interrupted}`
}

/** `switchyard workers drain`: no new runs for a worker, and with `--wait` until it has none left. */
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
    output.outcome(end.value, id, `${name} is empty after ${formatDuration(performance.now() - from)}.`)
    output.next(`switchyard workers enable ${quoteWord(name)}`)
    return undefined
  })
}

/**
 * A worker is empty when it has no run and no terminal left. A terminal of an earlier process of the host has no name.
 */
function judgeWorker(
  { output, present }: CommandContext,
  { id, name }: WorkerView,
  { workers, runs }: SeenFleet,
) {
  const found = workers.find((worker) => worker.id === id)
  if (found === undefined) throw refusedError(`${name} was revoked`, 'switchyard workers')
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

/** Prints the changed worker; `--json` has the host's whole answer. */
function printChanged(
  { output }: CommandContext,
  fleet: FleetResponse,
  id: string,
  describe: (worker: WorkerView) => string,
): void {
  const worker = fleet.workers.find((each) => each.id === id)
  output.outcome(fleet, id, worker === undefined ? id : describe(worker))
}
