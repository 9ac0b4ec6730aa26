/**
 * `rewriteCommits` writes commits of a run repository anew, outside the sandbox: some paths omitted, messages changed;
 * `readMessages` reads their messages.
 *
 * Authors and dates stay. A stream of git's fast export is filtered and imported again; it names contents by their ids
 * only, so its size does not depend on the files.
 */
import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Readable, Transform, type TransformCallback, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { no, type Result, yes } from '../../core/result.ts'
import { COMMIT_MESSAGE_BYTES_MAX } from '../../protocol/limits.ts'
import { writeRef } from './bare-repository.ts'
import type { Git, GitCall } from './git.ts'
import type { CheckedOut } from './git-ports.ts'
import { BoundedStream, WORK_LIST_BYTES_MAX } from './work-bounds.ts'

export interface RewritePlace {
  /** The run repository. */
  readonly folder: string
  readonly staging: string
}

export interface CommitRange {
  readonly head: string
  /** Commits that stay, with all before them. */
  readonly known: readonly string[]
}

/** The commits that the code host has already. */
export const knownCommits = ({ base, pushedBefore }: CheckedOut): readonly string[] =>
  pushedBefore === undefined ? [base] : [base, pushedBefore]

export interface CommitChanges {
  /** Limits the commits to these paths; a commit that changes nothing else is dropped. */
  readonly pathspecs?: readonly string[]
  readonly changeMessage?: (message: Buffer) => Buffer
}

const TOO_LONG_HISTORY = no(
  'invalid',
  'the agent’s commits change too many files one after the other, so nothing was published; its work stays in its sandbox',
)
const LOCAL_MS_MAX = 60_000
const STREAM_FILE = 'rewritten.stream'
const REWRITTEN_REF = 'refs/switchyard/rewritten'

/** Returns the new head: undefined when no commit is left, the same when no message changed and no path is named. */
export async function rewriteCommits(
  git: Git,
  place: RewritePlace,
  range: CommitRange,
  changes: CommitChanges,
): Promise<Result<string | undefined>> {
  const stream = join(place.staging, STREAM_FILE)
  const filter = new MessageFilter(changes.changeMessage ?? ((message) => message))
  const bounded = new BoundedStream({ bytesMax: WORK_LIST_BYTES_MAX })
  const exported = await exportCommits(git, place, range, changes.pathspecs, (output) =>
    pipeline(output, filter, bounded, createWriteStream(stream, { mode: 0o600 })),
  )
  if (bounded.isOver) {
    await rm(stream, { force: true })
    return TOO_LONG_HISTORY
  }
  const isSame = changes.pathspecs === undefined && !filter.hasChanged
  const rewritten: Result<string | undefined> = !exported.ok
    ? exported
    : isSame
      ? yes(range.head)
      : await importCommits(git, place, range, stream)
  await rm(stream, { force: true })
  return rewritten
}

/** Calls `onMessage` with the message of each commit. */
export function readMessages(
  git: Git,
  place: RewritePlace,
  range: CommitRange,
  onMessage: (message: Buffer) => void,
): Promise<Result<unknown>> {
  const filter = new MessageFilter((message) => {
    onMessage(message)
    return message
  })
  return exportCommits(git, place, range, undefined, async (output) => {
    await pipeline(output, filter, new Writable({ write: (_piece, _encoding, done) => done() }))
  })
}

async function exportCommits(
  git: Git,
  { folder }: RewritePlace,
  { head, known }: CommitRange,
  pathspecs: readonly string[] | undefined,
  readOutput: (output: Readable) => Promise<void>,
): Promise<Result<unknown>> {
  await writeRef(folder, REWRITTEN_REF, head)
  return git.runChecked('reading the commits', {
    ...local(folder, [
      'fast-export',
      '--reference-excluded-parents',
      ...['--no-data', '--reencode=no', '--signed-tags=strip'],
      ...[REWRITTEN_REF, ...known.map((commit) => `^${commit}`)],
      ...(pathspecs === undefined ? [] : ['--', ...pathspecs]),
    ]),
    readOutput,
  })
}

async function importCommits(
  git: Git,
  { folder }: RewritePlace,
  { known }: CommitRange,
  stream: string,
): Promise<Result<string | undefined>> {
  // Without a commit the stream leaves the reference as it is.
  await rm(join(folder, REWRITTEN_REF), { force: true })
  const imported = await git.runChecked('writing the commits anew', {
    ...local(folder, ['fast-import', '--quiet', '--force']),
    input: stream,
  })
  if (!imported.ok) return imported
  const found = await git.run(local(folder, ['rev-parse', '--verify', '--quiet', REWRITTEN_REF]))
  if (!found.ok) return found
  const commit = found.value.output.trim()
  return yes(commit === '' || known.includes(commit) ? undefined : commit)
}

const local = (folder: string, args: readonly string[]): GitCall => ({
  args,
  folder,
  isUntrusted: true,
  timeoutMs: LOCAL_MS_MAX,
})

const TOO_LONG = `a commit has a message of more than ${COMMIT_MESSAGE_BYTES_MAX} bytes`
const NEWLINE = 0x0a
/** Git quotes newlines in paths, so a line that begins like this announces a message of so many bytes. */
const DATA = /^data (\d+)$/

/** Without contents of files, every `data` of the stream is the message of a commit. */
class MessageFilter extends Transform {
  hasChanged = false
  readonly #changeMessage: (message: Buffer) => Buffer
  #line: Buffer = Buffer.alloc(0)
  #error: Error | null = null
  /** The message that is being read. */
  #message: { readonly parts: Buffer[]; bytesLeft: number } | undefined

  constructor(changeMessage: (message: Buffer) => Buffer) {
    super()
    this.#changeMessage = changeMessage
  }

  override _transform(piece: Buffer, _encoding: string, done: TransformCallback): void {
    for (let at = 0; at < piece.length; )
      at =
        this.#message === undefined ? this.#readLine(piece, at) : this.#readMessage(piece, at, this.#message)
    done(this.#error)
  }

  override _flush(done: TransformCallback): void {
    done(null, this.#line)
  }

  #readLine(piece: Buffer, at: number): number {
    const end = piece.indexOf(NEWLINE, at)
    this.#line = Buffer.concat([this.#line, piece.subarray(at, end < 0 ? piece.length : end)])
    if (end < 0) return piece.length
    const [, bytes] = DATA.exec(this.#line.toString('latin1')) ?? []
    if (bytes === undefined) this.push(Buffer.concat([this.#line, Buffer.of(NEWLINE)]))
    else this.#startMessage(Number(bytes))
    this.#line = Buffer.alloc(0)
    return end + 1
  }

  #startMessage(bytesLeft: number): void {
    if (bytesLeft > COMMIT_MESSAGE_BYTES_MAX) this.#error = new Error(TOO_LONG)
    this.#message = { parts: [], bytesLeft }
    if (bytesLeft === 0) this.#endMessage([])
  }

  #readMessage(piece: Buffer, at: number, message: { readonly parts: Buffer[]; bytesLeft: number }): number {
    const part = piece.subarray(at, at + message.bytesLeft)
    message.parts.push(part)
    message.bytesLeft -= part.length
    if (message.bytesLeft === 0) this.#endMessage(message.parts)
    return at + part.length
  }

  #endMessage(parts: readonly Buffer[]): void {
    this.#message = undefined
    const before = Buffer.concat(parts)
    const after = this.#changeMessage(before)
    this.hasChanged ||= !after.equals(before)
    this.push(Buffer.concat([Buffer.from(`data ${after.length}\n`), after]))
  }
}
