/** The things that a run left behind: its pull request in a browser, its artifacts, its events as JSON Lines. */
import { spawn } from 'node:child_process'
import { open as openFile, rm } from 'node:fs/promises'
import { basename } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { artifactNames, waitsToPublish } from '../../../client/artifact-names.ts'
import { HostUnreachable, reasonOf } from '../../../client/errors.ts'
import { readEvents } from '../../../client/run-events.ts'
import type { Output } from '../../output/output.ts'
import { type ExitError, refusedError } from '../../process/exit.ts'
import { findRun } from '../command/names.ts'
import type { ClientOptions, CommandContext } from '../command/run-command.ts'

/** Few lines follow the artifacts of a run whose work waits to be published. */
const EVENTS_READ = 1_000

export interface ArtifactOptions extends ClientOptions {
  readonly to?: string | undefined
}

export async function open({ client, output }: CommandContext, name: string): Promise<void> {
  const run = await findRun(client, name)
  const url = run.prUrl
  if (url === undefined || !/^https?:/.test(url))
    throw refusedError(`${run.ticket.identifier} has no pull request that a browser shows`)
  openAddress(output, url)
}

/** Prints an address, and opens it in a browser where there is one. */
export function openAddress(output: Output, url: string): void {
  const opener = process.platform === 'darwin' ? 'open' : 'xdg-open'
  const hasScreen =
    process.platform === 'darwin' || (process.env.DISPLAY ?? process.env.WAYLAND_DISPLAY) !== undefined
  output.data(url)
  if (!hasScreen || !output.stdout.isTerminal) return
  const child = spawn(opener, [url], { stdio: 'ignore', detached: true })
  child.on('error', () => output.note(`${opener} is not installed; open the address by hand`))
  child.unref()
}

export async function artifacts(
  { client, output, options }: CommandContext<ArtifactOptions>,
  name: string,
  file: string | undefined,
): Promise<void> {
  const run = await findRun(client, name)
  if (file === undefined) {
    const events = waitsToPublish(run) ? await client.readRunEvents({ id: run.id, tail: EVENTS_READ }) : []
    output.list({
      records: artifactNames(run, events),
      id: (each) => each,
      columns: [{ heading: '', cell: (each) => each }],
      empty: `${run.ticket.identifier} has no artifacts`,
    })
    return
  }
  const reply = await client.readArtifact({ id: run.id, name: file })
  const to = options.to ?? basename(file)
  if (to === '-') await pipeline(Readable.from(reply.body), process.stdout, { end: false })
  else {
    await saveAs(to, reply.body)
    output.note(`saved as ${to}`)
  }
}

/** Leaves a file that is there already as it is, and no part of a file behind. */
async function saveAs(path: string, body: AsyncIterable<Uint8Array>): Promise<void> {
  const file = await openFile(path, 'wx').catch((error) => {
    throw cannotSave(path, error)
  })
  try {
    await pipeline(Readable.from(body), file.createWriteStream())
  } catch (error) {
    await rm(path, { force: true })
    throw error instanceof HostUnreachable ? error : cannotSave(path, error)
  }
}

function cannotSave(path: string, error: unknown): ExitError {
  const reason = reasonOf(error)
  const what = reason === 'EEXIST' ? 'is there already' : `cannot be written (${reason})`
  return refusedError(`${path} ${what}`, '--to PATH, or --to - for standard output')
}

export async function exportEvents(
  { client, connection, output }: CommandContext,
  name: string,
): Promise<void> {
  const run = await findRun(client, name)
  for await (const event of readEvents(connection, run.id)) {
    output.jsonLine(event)
    await output.drained()
  }
}
