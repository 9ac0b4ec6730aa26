/**
 * `searchCommits` searches everything that a push would add for secrets: files, their names, and commit messages. A
 * secret of the run refuses the work. Keys in general are returned with their places, because a person may publish
 * them.
 *
 * The search runs outside, in the run repository. Git lists the objects that the commits add, so a secret in a file
 * that a later commit deletes is found too. A search that does not end counts as a hit: nothing is published
 * unsearched.
 */
import { createWriteStream } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { no, type Refused, type Result, yes } from '../../../core/result.ts'
import { truncate } from '../../../core/safe-text.ts'
import { FOUND_KEY_FILE_CHARS_MAX } from '../../../protocol/limits.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import { ContentScan } from '../../secrets/content-scan.ts'
import {
  type FoundValue,
  findKeys,
  hashOf,
  KeyScan,
  type MarkedKey,
  markOf,
} from '../../secrets/key-forms.ts'
import { explainFoundSecret } from '../../secrets/run-secrets.ts'
import type { SecretScan, SecretSearch } from '../../secrets/secret-search.ts'
import type { Git } from '../git.ts'
import { type GitObject, OBJECT_FORMAT, type ObjectReader, readObjects } from './object-stream.ts'
import { BoundedStream, WORK_LIST_BYTES_MAX, WORK_OBJECTS_MAX } from './work-bounds.ts'

/** The keys that a search of a run's work remembers; more hold the work without being compared with what is known. */
export const SEARCHED_KEYS_MAX = 1_000
/** How long the objects of a run's commits may be searched for secrets. */
const SECRET_SEARCH_MS_MAX = 10 * 60_000

export interface CommitSearch {
  /** The run repository. */
  readonly folder: string
  readonly head: string
  /** Commits that the code host has already. */
  readonly known: readonly string[]
  /** The worker's own folder of the run. */
  readonly staging: string
  readonly search: SecretSearch
  /** The bytes of all objects together. */
  readonly unpackedBytesMax: number
}

const NOT_PUBLISHED = 'so nothing was published; its work stays in its sandbox'
const TOO_MANY_OBJECTS = no(
  'invalid',
  `the agent’s work adds more than ${WORK_OBJECTS_MAX} files and folders, ${NOT_PUBLISHED}`,
)
const tooLarge = (bytesMax: number) =>
  no(
    'invalid',
    `the agent’s work unpacks to more than ${Math.floor(bytesMax / 1024 ** 2)} MiB, ${NOT_PUBLISHED}`,
  )
const LIST_FILE = 'objects.list'
const PATH_CHARS_MAX = 200

export async function searchCommits(git: Git, request: CommitSearch): Promise<Result<MarkedKey[]>> {
  const list = join(request.staging, LIST_FILE)
  const listed = await listObjects(git, request, list)
  const found = listed.ok ? await searchObjects(git, request, list) : listed
  await rm(list, { force: true })
  if (!found.ok) return found
  const keys = await dropKnownKeys(git, request, found.value)
  return keys.ok ? yes(keys.value.map(({ path: _, hash: __, ...key }) => key)) : keys
}

/** Writes a line for each object: its id, and the path of a file or folder. */
async function listObjects(
  git: Git,
  { folder, head, known }: CommitSearch,
  list: string,
): Promise<Result<unknown>> {
  const bounds = { endsMax: WORK_OBJECTS_MAX, bytesMax: WORK_LIST_BYTES_MAX }
  const bounded = new BoundedStream(bounds)
  const listed = await git.runChecked('listing what the work adds', {
    args: ['rev-list', '--objects', head, ...known.map((commit) => `^${commit}`)],
    folder,
    isUntrusted: true,
    readOutput: (output) => pipeline(output, bounded, createWriteStream(list, { mode: 0o600 })),
    timeoutMs: SECRET_SEARCH_MS_MAX,
  })
  return bounded.isOver ? TOO_MANY_OBJECTS : listed
}

async function searchObjects(
  git: Git,
  { folder, search, unpackedBytesMax }: CommitSearch,
  list: string,
): Promise<Result<KeyInWork[]>> {
  const reader = new SearchingReader(search, unpackedBytesMax)
  const ran = await git.runChecked('searching the work for secrets', {
    args: ['cat-file', OBJECT_FORMAT, '--buffer'],
    folder,
    isUntrusted: true,
    input: list,
    readOutput: (output) => readObjects(output, reader),
    timeoutMs: SECRET_SEARCH_MS_MAX,
  })
  if (reader.isOver) return tooLarge(unpackedBytesMax)
  if (reader.found !== undefined) return no('invalid', reader.found)
  return ran.ok ? yes(reader.keys) : ran
}

class SearchingReader implements ObjectReader {
  /** The sentence about the first secret. */
  found: string | undefined
  readonly keys: KeyInWork[] = []
  /** The objects have more bytes than are searched. */
  isOver = false
  readonly #bytesMax: number
  #bytes = 0
  readonly #search: SecretSearch
  readonly #scan: ContentScan
  #object: GitObject | undefined

  constructor(search: SecretSearch, bytesMax: number) {
    this.#search = search
    this.#bytesMax = bytesMax
    this.#scan = new ContentScan({
      openScan: (isPacked) =>
        bothScans(search.openScan(), new KeyScan((key) => this.#recordKey(key, isPacked))),
    })
  }

  begin(object: GitObject): void {
    this.#bytes += object.bytes
    this.isOver = this.#bytes > this.#bytesMax
    if (this.isOver) throw new Error('it unpacks to too much')
    this.#object = object
    this.#scan.reset()
  }

  push(piece: Buffer): Promise<void> | undefined {
    return this.found === undefined ? this.#scan.push(piece) : undefined
  }

  end(): Promise<void> | undefined {
    const secret = this.#scan.end()
    if (!(secret instanceof Promise)) return this.#record(secret)
    return secret.then((name) => this.#record(name))
  }

  #record(secret: string | undefined): undefined {
    if (secret === undefined || this.#object === undefined) return
    const [place, unnamed] = describePlace(this.#object)
    this.found ??= explainFoundSecret(this.#search, secret, place, unnamed)
  }

  #recordKey({ kind, line, value }: FoundValue, isPacked: boolean): void {
    if (this.#object === undefined) return
    const hash = hashOf(value)
    const last = this.keys.at(-1)
    if (last !== undefined && this.keys.length > SEARCHED_KEYS_MAX) {
      // The last stands for all further ones.
      this.keys[SEARCHED_KEYS_MAX] = { ...last, mark: markOf(kind, last.mark, hash) }
      return
    }
    const { type, note } = this.#object
    const [place, unnamed] = type === 'blob' ? [note, 'a file'] : describePlace(this.#object)
    // A shortened path may hold a part of a key.
    const file = findKeys(note).length === 0 ? place : unnamed
    const isInFile = type === 'blob' && !isPacked
    const isCompared = type === 'blob' && this.keys.length < SEARCHED_KEYS_MAX
    this.keys.push({
      kind,
      file: truncate(printable(file), FOUND_KEY_FILE_CHARS_MAX),
      ...(isInFile ? { line } : {}),
      mark: markOf(kind, type === 'blob' ? note : unnamed, hash),
      path: isCompared ? note : undefined,
      hash,
    })
  }
}

/** The names of keys are told to `KeyScan`'s own listener. */
const bothScans = (secrets: SecretScan, keys: KeyScan): SecretScan => ({
  reset() {
    secrets.reset()
    keys.reset()
  },
  push(piece) {
    secrets.push(piece)
    keys.push(piece)
  },
  found() {
    keys.end()
    return secrets.found()
  },
})

/** The place with its name, and without it. */
function describePlace({ id, type, note }: GitObject): readonly [place: string, unnamed: string] {
  const path = truncate(printable(note), PATH_CHARS_MAX)
  if (type === 'blob') return [`the file ${path}`, 'a file']
  if (type === 'tree')
    return [path === '' ? 'the name of a file' : `the name of a file in ${path}`, 'the name of a file']
  return [`the message of commit ${id.slice(0, 12)}`, 'the message of a commit']
}

// ---- keys that the code host has already ---------------------------------------------------------------------------

/** A key in a new object. */
type KeyInWork = MarkedKey & {
  /** The path of its file, for which it is compared with what is known; undefined elsewhere. */
  readonly path: string | undefined
  readonly hash: string
}

interface KnownPlaces {
  readonly folder: string
  readonly staging: string
  readonly known: readonly string[]
}

const KNOWN_KEYS_FILE = 'known-keys.list'
const OBJECT_ID = /^[0-9a-f]{40,64}$/

/**
 * Leaves out keys that the same file holds in a commit which the code host has already: a change elsewhere in such a
 * file gives away nothing new.
 */
export async function dropKnownKeys(
  git: Git,
  places: KnownPlaces,
  found: readonly KeyInWork[],
): Promise<Result<KeyInWork[]>> {
  const paths = [...new Set(found.flatMap(({ path }) => path ?? []))]
  const ids = paths.length === 0 ? yes([]) : await findFiles(git, places, paths)
  if (!ids.ok) return ids
  const hashes = ids.value.length === 0 ? yes(new Set<string>()) : await hashesIn(git, places, ids.value)
  if (!hashes.ok) return hashes
  return yes(found.filter(({ path, hash }) => path === undefined || !hashes.value.has(`${path}\n${hash}`)))
}

/** A git that was stopped has said nothing about the keys, so nobody is to be asked about them. */
const wasStopped = (ran: Result<unknown>): ran is Refused => !ran.ok && ran.refusal.kind === 'conflict'

/** The files at these paths in the known commits, as lines of an id and a path. Any other failure finds none. */
async function findFiles(
  git: Git,
  { folder, staging, known }: KnownPlaces,
  paths: readonly string[],
): Promise<Result<string[]>> {
  const asked = known.flatMap((commit) => paths.map((path) => ({ name: `${commit}:${path}`, path })))
  const input = join(staging, KNOWN_KEYS_FILE)
  await writeFile(input, asked.map(({ name }) => `${name}\n`).join(''), { mode: 0o600 })
  const ran = await git.run({
    args: ['cat-file', '--batch-check=%(objectname)'],
    folder,
    isUntrusted: true,
    input,
    outputCharsMax: Number.POSITIVE_INFINITY,
    timeoutMs: SECRET_SEARCH_MS_MAX,
  })
  await rm(input, { force: true })
  if (wasStopped(ran)) return ran
  const lines = ran.ok ? ran.value.output.split('\n') : []
  const files = asked.flatMap(({ path }, at) => {
    const id = lines[at] ?? ''
    return OBJECT_ID.test(id) ? [`${id} ${path}`] : []
  })
  return yes(files)
}

async function hashesIn(
  git: Git,
  { folder, staging }: KnownPlaces,
  files: readonly string[],
): Promise<Result<Set<string>>> {
  const hashes = new Set<string>()
  let path = ''
  const scan = new KeyScan(({ value }) => hashes.add(`${path}\n${hashOf(value)}`))
  const input = join(staging, KNOWN_KEYS_FILE)
  await writeFile(input, files.map((file) => `${file}\n`).join(''), { mode: 0o600 })
  const ran = await git.run({
    args: ['cat-file', OBJECT_FORMAT, '--buffer'],
    folder,
    isUntrusted: true,
    input,
    readOutput: (output) =>
      readObjects(output, {
        begin(object) {
          path = object.note
          scan.reset()
        },
        push(piece) {
          scan.push(piece)
          return undefined
        },
        end() {
          scan.end()
          return undefined
        },
      }),
    timeoutMs: SECRET_SEARCH_MS_MAX,
  })
  await rm(input, { force: true })
  return wasStopped(ran) ? ran : yes(hashes)
}
