/**
 * `rewriteCommits` writes commits of a run repository anew, outside the sandbox: some paths omitted, messages changed;
 * `readMessages` reads their messages. `neutralizeMessages` uses both for the work of a run; `sealCommit` writes a
 * header into one commit.
 *
 * Authors and dates stay. A stream of git's fast export is filtered and imported again; it names contents by their ids
 * only, so its size does not depend on the files.
 */
import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Readable, Transform, type TransformCallback, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { no, type Result, yes } from '../../../core/result.ts'
import type { Git } from '../git.ts'
import type { CheckedOut } from '../git-ports.ts'
import { writeRef } from '../mirror/bare-repository.ts'
import { neutralizeMessage } from './neutral-markup.ts'
import { BoundedStream, LOCAL_MS_MAX, untrustedCall, WORK_LIST_BYTES_MAX } from './work-bounds.ts'

/** The message of a commit that a run publishes. */
const COMMIT_MESSAGE_BYTES_MAX = 1024 * 1024

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
    ...untrustedCall(folder, [
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
    ...untrustedCall(folder, ['fast-import', '--quiet', '--force']),
    input: stream,
  })
  if (!imported.ok) return imported
  const found = await git.run(untrustedCall(folder, ['rev-parse', '--verify', '--quiet', REWRITTEN_REF]))
  if (!found.ok) return found
  const commit = found.value.output.trim()
  return yes(commit === '' || known.includes(commit) ? undefined : commit)
}

// ---- the stream ----------------------------------------------------------------------------------------------------

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

// ---- neutral messages ----------------------------------------------------------------------------------------------

/**
 * Takes the effects out of the messages of a run's commits: a message that is merged closes the issues that it names,
 * and notifies people.
 *
 * Commits are written anew only where a message has such an effect. Their contents stay. So does a message that the
 * branch has on the code host already: a rebase writes the commits of people anew, whose words they are.
 *
 * Returns the head of the commits with neutral messages.
 */
export async function neutralizeMessages(
  git: Git,
  place: RewritePlace,
  workHead: string,
  from: CheckedOut,
): Promise<Result<string>> {
  const range = { head: workHead, known: knownCommits(from) }
  const all = await rewriteCommits(git, place, range, { changeMessage: neutralizeMessage })
  const { base, pushedBefore } = from
  if (!all.ok || all.value === workHead || pushedBefore === undefined)
    return checkFiles(git, place, workHead, all)
  const published = new Set<string>()
  // Messages that cannot be read count as the agent's.
  await readMessages(git, place, { head: pushedBefore, known: [base] }, (message) =>
    published.add(digestOf(message)),
  )
  const changeMessage = (message: Buffer): Buffer =>
    published.has(digestOf(message)) ? message : neutralizeMessage(message)
  const others = await rewriteCommits(git, place, range, { changeMessage })
  return checkFiles(git, place, workHead, others)
}

/** Git may remove blanks and empty lines from a message when it writes the commit anew. */
function digestOf(message: Buffer): string {
  const lines = message.toString('latin1').split('\n')
  const text = lines.map((line) => line.trimEnd()).join('\n')
  return createHash('sha256')
    .update(text.replace(/\n{3,}/g, '\n\n').trim())
    .digest('hex')
}

/** Refuses commits whose last one has other files than the head of the work. */
async function checkFiles(
  git: Git,
  place: RewritePlace,
  workHead: string,
  rewritten: Result<string | undefined>,
): Promise<Result<string>> {
  if (!rewritten.ok) return rewritten
  const head = rewritten.value
  if (head === workHead) return yes(head)
  if (head === undefined) return no('failed', 'writing the commits anew lost them, so nothing was pushed')
  const trees = await git.runChecked('comparing the commits', {
    args: ['rev-parse', `${head}^{tree}`, `${workHead}^{tree}`],
    folder: place.folder,
    isUntrusted: true,
    timeoutMs: LOCAL_MS_MAX,
  })
  if (!trees.ok) return trees
  const [after, before] = trees.value.output.split('\n')
  if (after === before) return yes(head)
  return no('failed', 'writing the commits anew changed their files, so nothing was pushed')
}

// ---- the seal of a follow-up ---------------------------------------------------------------------------------------

export const SEAL_HEADER = 'switchyard-follow-up'
/** A message of the longest kind, and headers: those of signatures and of merged tags are copies of others. */
const COMMIT_BYTES_MAX = 2 * COMMIT_MESSAGE_BYTES_MAX

const COMMIT_FILE = 'sealed.commit'
const END_OF_HEADER = '\n\n'

/**
 * Writes the seal of a follow-up into the header of a commit, by which a later attempt recognises what was pushed;
 * people do not see it.
 *
 * The header is written outside the sandbox, right before the push: git drops a header that it does not know when it
 * writes a commit anew.
 *
 * Returns the sealed commit, which differs from the given one in nothing else.
 */
export async function sealCommit(
  git: Git,
  { folder, staging }: RewritePlace,
  commit: string,
  seal: string,
): Promise<Result<string>> {
  const call = { folder, isUntrusted: true, timeoutMs: LOCAL_MS_MAX } as const
  const parts: Buffer[] = []
  const read = await git.runChecked('reading the commit', {
    ...call,
    args: ['cat-file', 'commit', commit],
    readOutput: (output) => readParts(output, parts),
  })
  if (!read.ok) return read
  const text = Buffer.concat(parts)
  const end = text.indexOf(END_OF_HEADER)
  if (end < 0) return no('invalid', `the commit ${commit.slice(0, 12)} has no end of its header`)
  const input = join(staging, COMMIT_FILE)
  const header = Buffer.from(`\n${SEAL_HEADER} ${seal}`)
  await writeFile(input, Buffer.concat([text.subarray(0, end), header, text.subarray(end)]), { mode: 0o600 })
  const written = await git.runChecked('writing the commit', {
    ...call,
    args: ['hash-object', '-t', 'commit', '-w', '--stdin'],
    input,
  })
  await rm(input, { force: true })
  return written.ok ? yes(written.value.output.trim()) : written
}

async function readParts(output: Readable, parts: Buffer[]): Promise<void> {
  let bytes = 0
  for await (const part of output) {
    bytes += (part as Buffer).length
    if (bytes > COMMIT_BYTES_MAX) throw new Error(`a commit has more than ${COMMIT_BYTES_MAX} bytes`)
    parts.push(part as Buffer)
  }
}
