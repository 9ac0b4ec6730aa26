/** `switchyard workers join-keys`: lists, creates and deletes the keys that many machines join with. */
import type { Client } from '../../../client/client.ts'
import { type HostMarks, joinCommand } from '../../../client/join-address.ts'
import type { JoinKey } from '../../../protocol/join-key.ts'
import { quoteWord } from '../../../protocol/quote-word.ts'
import type { TableColumn } from '../../output/table.ts'
import { formatClock, type Present, parseExpiry } from '../../output/times.ts'
import { refusedError, unwrapOrExit, usageError } from '../../process/exit.ts'
import { requireName } from '../command/names.ts'
import type { ClientOptions, CommandContext } from '../command/run-command.ts'

const LIST = 'switchyard workers join-keys'

export interface JoinKeyCreateOptions extends ClientOptions {
  readonly expires?: string | undefined
  readonly maxWorkers?: number | undefined
  readonly ephemeral?: boolean | undefined
}

export interface JoinKeyDeleteOptions extends ClientOptions {
  readonly workers?: boolean | undefined
}

export async function list({ client, output, present }: CommandContext): Promise<void> {
  const { joinKeys } = await client.listJoinKeys()
  output.list({
    records: joinKeys,
    id: ({ id }) => id,
    columns: joinKeyColumns(present()),
    empty: `There is no join key. Next: ${LIST} create NAME`,
  })
}

const joinKeyColumns = (present: Present): TableColumn<JoinKey>[] => [
  { heading: 'NAME', cell: ({ name }) => name, shrinksTo: 8, shrinks: 'end' },
  { heading: 'WORKERS', cell: ({ workers, maxWorkers }) => `${workers}/${maxWorkers ?? 'any'}` },
  { heading: 'EPHEMERAL', cell: ({ ephemeral }) => (ephemeral ? 'yes' : 'no'), givesWay: 1 },
  {
    heading: 'EXPIRES',
    cell: ({ expiresAt }) => describeExpiry(expiresAt, present),
    plain: ({ expiresAt }) => expiresAt ?? '-',
  },
  { heading: 'ID', cell: ({ id }) => id },
]

function describeExpiry(expiresAt: string | undefined, present: Present): string {
  if (expiresAt === undefined) return 'never'
  const at = Date.parse(expiresAt)
  return at <= present.now ? 'expired' : formatClock(at, present)
}

/** Only the key stands on standard output, so that a script may write it into a file. */
export async function create(context: CommandContext<JoinKeyCreateOptions>, name: string): Promise<void> {
  const { client, output, options, present } = context
  requireName(name, 'join key', `${LIST} create NAME`)
  const { expires, maxWorkers, ephemeral } = options
  const expiresAt =
    expires === undefined ? undefined : unwrapOrExit(parseExpiry(expires, '--expires', present()))
  const created = await client.createJoinKey({
    body: {
      name,
      ...(expiresAt === undefined ? {} : { expiresAt: new Date(expiresAt).toISOString() }),
      ...(maxWorkers === undefined ? {} : { maxWorkers }),
      ...(ephemeral === undefined ? {} : { ephemeral }),
    },
  })
  if (output.format === 'json') {
    output.json(created)
    return
  }
  output.data(output.format === 'id' ? created.id : created.key)
  const until = expiresAt === undefined ? '' : ` until ${formatClock(expiresAt, present())}`
  output.note(
    `The key ${created.id} enrolls ${maxWorkers === undefined ? 'any number of' : `up to ${maxWorkers}`} machines${until}, and is shown only now. On each machine write it into a file that only the worker can read, then:`,
  )
  await noteJoinCommand(context, '--join-key-file', created)
}

export async function remove(
  { client, output, questions, options }: CommandContext<JoinKeyDeleteOptions>,
  named: string,
): Promise<void> {
  const joinKey = await findJoinKey(client, named)
  const { id, name } = joinKey
  const withWorkers = options.workers === true
  await questions.confirmLoss({
    loss: lossOf(joinKey, withWorkers),
    yes: options.yes,
    command: `${LIST} delete ${quoteWord(named)}${withWorkers ? ' --workers' : ''}`,
  })
  const done = await client.deleteJoinKey({ id, ...(withWorkers ? { workers: '1' as const } : {}) })
  const revoked = withWorkers ? `, and its ${countOf(joinKey)} are revoked` : ''
  output.outcome(done, id, `${name}: no machine joins any more${revoked}.`)
}

const countOf = ({ workers }: JoinKey): string => `${workers} ${workers === 1 ? 'worker' : 'workers'}`

function lossOf(joinKey: JoinKey, withWorkers: boolean): string {
  const count = countOf(joinKey)
  const those = withWorkers
    ? `removes its ${count} for good, and interrupts their runs`
    : `keeps its ${count}`
  return `this deletes the join key ${joinKey.name}, and ${those}`
}

/** Names need not be unique, so a name that several keys have is wrong usage. */
async function findJoinKey(client: Client, named: string): Promise<JoinKey> {
  requireName(named, 'join key', LIST)
  const { joinKeys } = await client.listJoinKeys()
  const fitting = joinKeys.filter(({ id, name }) => id === named || name === named)
  const [joinKey] = fitting
  if (joinKey === undefined) throw refusedError(`no join key is called ${named}`, LIST)
  if (fitting.length === 1) return joinKey
  const ids = fitting.map(({ id }) => id).join(', ')
  throw usageError(`several join keys are called ${named}: ${ids}`, `${LIST} delete ${joinKey.id}`)
}

// ---- the command with which a machine joins ------------------------------------------------------------------------

/** Prints the command with which another machine becomes a worker, beside the token or the key that was made for it. */
export async function noteJoinCommand(
  { client, connection, output }: CommandContext,
  option: '--token-file' | '--join-key-file',
  marks: HostMarks,
): Promise<void> {
  const { fleet, server } = await client.readConfig()
  const { line, notes } = joinCommand(fleet, (await connection.address()).url, option, {
    serverPort: server.port,
    ...marks,
  })
  // A line of prose would break at the edge, and people copy this one.
  if (output.hasNotes) output.writeError(`${output.completeCommands(line)}\n`)
  for (const note of notes) output.note(note)
}
