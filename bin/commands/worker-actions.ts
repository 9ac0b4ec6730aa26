/** The verbs that change the fleet: pair, rename, enable, revoke. */
import { quoteWord } from '../../protocol/quote-word.ts'
import type { FleetResponse, WorkerView } from '../../protocol/worker.ts'
import { findWorker } from '../client/names.ts'
import type { CommandContext } from '../client/run-command.ts'
import { formatClock } from '../output/times.ts'
import { noteJoinCommand } from './join-command.ts'

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
  if (output.format === 'json') output.json(fleet)
  else output.data(output.format === 'id' ? worker.id : output.stdout.clean(`${worker.name} is revoked.`))
}

function lossOf({ name, activeRuns }: WorkerView): string {
  const runs = activeRuns === 1 ? 'its run is' : `its ${activeRuns} runs are`
  const interrupted = activeRuns === 0 ? '' : `; ${runs} interrupted`
  return `this removes ${name} for good, with its credential and the sandboxes it keeps${interrupted}`
}

/** Prints the changed worker; `--json` has the host's whole answer. */
export function printChanged(
  { output }: CommandContext,
  fleet: FleetResponse,
  id: string,
  describe: (worker: WorkerView) => string,
): void {
  const worker = fleet.workers.find((each) => each.id === id)
  if (output.format === 'json') output.json(fleet)
  else if (output.format === 'id' || worker === undefined) output.data(id)
  else output.data(output.stdout.clean(describe(worker)))
}
