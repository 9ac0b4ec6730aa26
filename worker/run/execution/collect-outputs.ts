/**
 * `collectOutputs` reads artifacts and memories from the agent's output folder and reports them.
 *
 * The caller waits until no process runs in the sandbox. The content is still untrusted: links are not followed, only
 * regular files without further hard links count, and everything has a limit. Each file that is left out is named with
 * its reason. All outputs are searched for secrets before the first is reported; a hit reports none.
 */
import { constants } from 'node:fs'
import { type FileHandle, lstat, open, opendir } from 'node:fs/promises'
import { join } from 'node:path'
import type { ExecutionReporter } from '../../../core/daemon/ports.ts'
import { contentTypeOf } from '../../../core/run/content-type.ts'
import { toSingleLine, truncate } from '../../../core/safe-text.ts'
import {
  ARTIFACT_BYTES_MAX,
  ARTIFACT_NAME_BYTES_MAX,
  ARTIFACT_PART_BYTES_MAX,
  MEMORY_CHARS_MAX,
  RUN_MEMORIES_FACTS_MAX,
} from '../../../protocol/limits.ts'
import { ContentScan } from '../../secrets/content-scan.ts'
import { explainFoundSecret } from '../../secrets/run-secrets.ts'
import type { SecretSearch } from '../../secrets/secret-search.ts'

const ARTIFACTS_MAX = 200
/** The artifacts of an execution whose host names no budget, because it is older. */
const ARTIFACTS_BYTES_DEFAULT = 512 * 1024 * 1024
const ARTIFACT_DEPTH_MAX = 8
const ENTRIES_READ_MAX = 10_000
const MEMORIES_BYTES_MAX = 256 * 1024

export interface CollectedOutputs {
  readonly artifacts: readonly string[]
  readonly facts: readonly string[]
  /** Sentences for the run's log: which outputs were left out, and why. */
  readonly leftOut: readonly string[]
  /** The sentence about a secret in an output, because of which all outputs were left out. */
  readonly foundSecret?: string
}

export interface OutputCollection {
  readonly reporter: ExecutionReporter
  /** The current wall time as an ISO 8601 timestamp. */
  readonly instant: () => string
  readonly mayContinue: () => boolean
  /** Bytes that all artifacts together may have. */
  readonly artifactBytes: number | undefined
  readonly search: SecretSearch
}

export async function collectOutputs(
  out: string,
  { reporter, instant, mayContinue, artifactBytes = ARTIFACTS_BYTES_DEFAULT, search }: OutputCollection,
): Promise<CollectedOutputs> {
  const facts = await readMemories(join(out, 'memories'))
  const found = await findFiles(join(out, 'artifacts'))
  const foundSecret = await searchOutputs(search, facts, found, mayContinue)
  if (foundSecret !== undefined) return { artifacts: [], facts: [], leftOut: [], foundSecret }
  if (facts.length > 0) reporter.report({ is: 'memories', facts })
  const artifacts: string[] = []
  const leftOut = [...found.leftOut]
  let bytesLeft = artifactBytes
  for (const { path, name } of found.files) {
    if (!mayContinue()) break
    const sent = await sendFile(path, name, bytesLeft, reporter, instant)
    if (typeof sent === 'string') leftOut.push(`artifact ${name} is left out: ${sent}`)
    else {
      bytesLeft -= sent
      artifacts.push(name)
    }
  }
  return { artifacts, facts, leftOut }
}

/** A larger bundle of unpublished commits stays in the sandbox only. A bundle counts as an artifact of its run. */
const UNPUBLISHED_BUNDLE_BYTES_MAX = 64 * 1024 * 1024

/** Sends the bundle of unpublished commits. Returns why it was left out, if it was. */
export async function sendBundle(
  name: string,
  path: string,
  {
    reporter,
    instant,
    artifactBytes = ARTIFACTS_BYTES_DEFAULT,
  }: Omit<OutputCollection, 'mayContinue' | 'search'>,
): Promise<string | undefined> {
  const { size } = await lstat(path)
  const isTooLarge = size > UNPUBLISHED_BUNDLE_BYTES_MAX
  const sent = isTooLarge
    ? `it has ${size} bytes, and a bundle at most ${UNPUBLISHED_BUNDLE_BYTES_MAX}`
    : await sendFile(path, name, artifactBytes, reporter, instant)
  return typeof sent === 'string' ? `artifact ${name} is left out: ${sent}` : undefined
}

/** Reports a text of the worker as an artifact of the run. */
export function reportTextArtifact(
  reporter: Pick<ExecutionReporter, 'report'>,
  at: string,
  name: string,
  text: string,
): void {
  const bytes = Buffer.from(text)
  const parts = Math.max(1, Math.ceil(bytes.length / ARTIFACT_PART_BYTES_MAX))
  for (let part = 0; part < parts; part++) {
    const piece = bytes.subarray(part * ARTIFACT_PART_BYTES_MAX, (part + 1) * ARTIFACT_PART_BYTES_MAX)
    const final = part === parts - 1
    reporter.report({ is: 'artifact', name, part, final, data: piece.toString('base64') })
  }
  const { contentType } = contentTypeOf(name)
  reporter.report({ is: 'event', event: { type: 'artifact', at, name, size: bytes.length, contentType } })
}

// ---- memories ----------------------------------------------------------------------------------------------------

async function readMemories(path: string): Promise<readonly string[]> {
  const text = await readStart(path, MEMORIES_BYTES_MAX)
  const lines = text
    .split('\n')
    .map((line) => truncate(toSingleLine(line.replace(/^\s*[-*]\s+/, '')), MEMORY_CHARS_MAX))
    .filter((line) => line !== '')
  return [...new Set(lines)].slice(0, RUN_MEMORIES_FACTS_MAX)
}

async function readStart(path: string, bytesMax: number): Promise<string> {
  const file = await openPlainFile(path)
  if (typeof file === 'string') return ''
  try {
    const buffer = Buffer.alloc(bytesMax)
    const { bytesRead } = await file.handle.read(buffer, 0, bytesMax, 0)
    return buffer.subarray(0, bytesRead).toString('utf8')
  } finally {
    await file.handle.close()
  }
}

// ---- artifacts ---------------------------------------------------------------------------------------------------

interface FoundFiles {
  readonly files: { readonly path: string; readonly name: string }[]
  readonly leftOut: string[]
}

/** Flattens folders into file names, because the artifacts of a run are stored in one folder. */
async function findFiles(folder: string): Promise<FoundFiles> {
  const found: FoundFiles = { files: [], leftOut: [] }
  const names = new Set<string>()
  let entriesRead = 0
  const visit = async (path: string, prefix: string, depth: number): Promise<void> => {
    for (const entry of await listEntries(path)) {
      entriesRead += 1
      if (entriesRead > ENTRIES_READ_MAX) return
      const name = `${prefix}${entry.name}`
      if (entry.isDirectory() && depth < ARTIFACT_DEPTH_MAX)
        await visit(join(path, entry.name), `${name}-`, depth + 1)
      else if (!entry.isFile())
        found.leftOut.push(`artifact ${safeName(name)} is left out: it is not a plain file`)
      else if (found.files.length < ARTIFACTS_MAX)
        found.files.push({ path: join(path, entry.name), name: uniqueName(name, names) })
      else entriesRead = ENTRIES_READ_MAX + 1
    }
  }
  const folderStats = await lstat(folder).catch(() => undefined)
  // A link in place of the folder could lead to files that the worker may read and the agent may not.
  if (folderStats?.isDirectory() === true) await visit(folder, '', 1)
  else if (folderStats !== undefined)
    found.leftOut.push('no artifacts are taken: their folder was replaced by something else')
  if (entriesRead > ENTRIES_READ_MAX)
    found.leftOut.push(`more artifacts than ${ARTIFACTS_MAX} were left; those beyond are left out`)
  found.leftOut.splice(ARTIFACTS_MAX)
  return found
}

async function listEntries(path: string) {
  const entries = []
  const folder = await opendir(path).catch(() => undefined)
  if (folder === undefined) return []
  for await (const entry of folder) {
    entries.push(entry)
    if (entries.length > ENTRIES_READ_MAX) break
  }
  return entries.sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** A name that every file system accepts and that differs from all names in `taken`. */
function uniqueName(wanted: string, taken: Set<string>): string {
  const plain = safeName(wanted)
  let name = plain
  for (let n = 2; taken.has(name); n += 1) name = `${n}-${plain}`
  taken.add(name)
  return name
}

function safeName(name: string): string {
  const plain = name
    .replace(/[\p{Cc}\p{Cf}\p{Cs}/\\\uFFFD]/gu, '_')
    .trim()
    .replace(/^\.+/, '_')
  return shortenName(plain === '' ? '_' : plain, ARTIFACT_NAME_BYTES_MAX - 8)
}

/** Shortens a name from its beginning, because its end tells the file type. */
function shortenName(name: string, bytesMax: number): string {
  let shortened = name
  while (Buffer.byteLength(shortened) > bytesMax) shortened = [...shortened].slice(1).join('')
  return shortened
}

// ---- sending -------------------------------------------------------------------------------------------------------

/** Returns the size in bytes, or why the file was left out. */
async function sendFile(
  path: string,
  name: string,
  bytesMax: number,
  reporter: ExecutionReporter,
  instant: () => string,
): Promise<number | string> {
  const file = await openPlainFile(path)
  if (typeof file === 'string') return file
  const { handle, size } = file
  try {
    if (size > ARTIFACT_BYTES_MAX)
      return `it has ${size} bytes, and an artifact at most ${ARTIFACT_BYTES_MAX}`
    if (size > bytesMax)
      return `it has ${size} bytes, and ${bytesMax} are left of what the artifacts of a run may have (sandbox.maxArtifactsMib)`
    await sendParts(handle, name, size, reporter)
  } finally {
    await handle.close()
  }
  const { contentType } = contentTypeOf(name)
  reporter.report({ is: 'event', event: { type: 'artifact', at: instant(), name, size, contentType } })
  return size
}

/** The last part is marked `final`; an empty file has one part. */
async function sendParts(
  handle: FileHandle,
  name: string,
  size: number,
  reporter: ExecutionReporter,
): Promise<void> {
  const buffer = Buffer.alloc(Math.min(ARTIFACT_PART_BYTES_MAX, Math.max(size, 1)))
  let sent = 0
  for (let part = 0; ; part += 1) {
    const bytesRead = await fillBuffer(handle, buffer, sent, size)
    sent += bytesRead
    const final = sent >= size || bytesRead === 0
    const data = buffer.subarray(0, bytesRead).toString('base64')
    reporter.report({ is: 'artifact', name, part, final, data })
    if (final) return
    await reporter.waitForCapacity()
  }
}

// ---- searching -----------------------------------------------------------------------------------------------------

interface LeftFiles {
  readonly files: readonly { readonly path: string; readonly name: string }[]
  /** Sentences about files that are no artifacts. */
  readonly leftOut: readonly string[]
}

const SEARCHED_AT_ONCE = 256 * 1024

/**
 * Searches artifacts and memories for the secrets of their run, before any of them is reported.
 *
 * Returns the sentence about the first secret. Files that the time does not suffice for are not reported either.
 */
async function searchOutputs(
  search: SecretSearch,
  facts: readonly string[],
  { files, leftOut }: LeftFiles,
  mayContinue: () => boolean,
): Promise<string | undefined> {
  if (search.isEmpty) return undefined
  const inFacts = search.findIn(facts.join('\n'))
  if (inFacts !== undefined) return explainFoundSecret(search, inFacts, 'a memory', 'a memory')
  const inLeftOut = search.findIn(leftOut.join('\n'))
  if (inLeftOut !== undefined) return explainFoundSecret(search, inLeftOut, 'the name of a file', 'a name')
  const scan = new ContentScan(search)
  for (const { path, name } of files) {
    if (!mayContinue()) break
    const place = `the artifact ${name}`
    const secret = search.findIn(name) ?? (await searchFile(scan, path))
    if (secret !== undefined) return explainFoundSecret(search, secret, place, 'an artifact')
  }
  return undefined
}

/** A file that is too large for an artifact is not reported, so it is not searched. */
async function searchFile(scan: ContentScan, path: string): Promise<string | undefined> {
  const file = await openPlainFile(path)
  if (typeof file === 'string') return undefined
  try {
    if (file.size > ARTIFACT_BYTES_MAX) return undefined
    const buffer = Buffer.alloc(Math.min(SEARCHED_AT_ONCE, Math.max(file.size, 1)))
    scan.reset()
    for (let at = 0; at < file.size; ) {
      const bytesRead = await fillBuffer(file.handle, buffer, at, file.size)
      if (bytesRead === 0) break
      await scan.push(buffer.subarray(0, bytesRead))
      at += bytesRead
    }
    return await scan.end()
  } finally {
    await file.handle.close()
  }
}

// ---- reading -------------------------------------------------------------------------------------------------------

type OpenedFile = { readonly handle: FileHandle; readonly size: number } | string

/**
 * Opens a file that a sandbox has left. `O_NOFOLLOW`: a link may lead anywhere. `O_NONBLOCK`: opening a pipe without a
 * writer would block forever.
 */
async function openPlainFile(path: string): Promise<OpenedFile> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const handle = await open(path, flags).catch(() => undefined)
  if (handle === undefined) return 'it cannot be opened'
  const stats = await handle.stat()
  const problem = !stats.isFile()
    ? 'it is not a plain file'
    : stats.nlink !== 1
      ? 'it has several names'
      : undefined
  if (problem === undefined) return { handle, size: stats.size }
  await handle.close()
  return problem
}

async function fillBuffer(handle: FileHandle, buffer: Buffer, from: number, size: number): Promise<number> {
  const wanted = Math.min(buffer.byteLength, size - from)
  let bytesFilled = 0
  while (bytesFilled < wanted) {
    const { bytesRead } = await handle.read(buffer, bytesFilled, wanted - bytesFilled, from + bytesFilled)
    if (bytesRead === 0) break
    bytesFilled += bytesRead
  }
  return bytesFilled
}
