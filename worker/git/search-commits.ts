/**
 * `searchCommits` searches everything that a push would add for secrets: files, their names, and commit messages.
 *
 * The search runs outside, in the run repository. Git lists the objects that the commits add, so a secret in a file that a
 * later commit deletes is found too. A search that does not end counts as a hit: nothing is published unsearched.
 */
import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { no, type Result, yes } from '../../core/result.ts'
import { truncate } from '../../core/safe-text.ts'
import { SECRET_SEARCH_MS_MAX } from '../../protocol/limits.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { ContentScan } from '../secrets/content-scan.ts'
import { explainFoundSecret } from '../secrets/run-secrets.ts'
import type { SecretSearch } from '../secrets/secret-search.ts'
import type { Git } from './git.ts'
import { type GitObject, OBJECT_FORMAT, type ObjectReader, readObjects } from './object-stream.ts'

export interface CommitSearch {
  /** The run repository. */
  readonly folder: string
  readonly head: string
  /** Commits that the code host has already. */
  readonly known: readonly string[]
  /** The worker's own folder of the run. */
  readonly staging: string
  readonly search: SecretSearch
}

const LIST_FILE = 'objects.list'
const PATH_CHARS_MAX = 200

export async function searchCommits(git: Git, request: CommitSearch): Promise<Result<void>> {
  if (request.search.isEmpty) return yes(undefined)
  const list = join(request.staging, LIST_FILE)
  const listed = await listObjects(git, request, list)
  const found = listed.ok ? await searchObjects(git, request, list) : listed
  await rm(list, { force: true })
  return found
}

/** Writes a line for each object: its id, and the path of a file or folder. */
async function listObjects(
  git: Git,
  { folder, head, known }: CommitSearch,
  list: string,
): Promise<Result<unknown>> {
  return git.runChecked('listing what the work adds', {
    args: ['rev-list', '--objects', head, ...known.map((commit) => `^${commit}`)],
    folder,
    isUntrusted: true,
    readOutput: (output) => pipeline(output, createWriteStream(list, { mode: 0o600 })),
    timeoutMs: SECRET_SEARCH_MS_MAX,
  })
}

async function searchObjects(
  git: Git,
  { folder, search }: CommitSearch,
  list: string,
): Promise<Result<void>> {
  const reader = new SearchingReader(search)
  const ran = await git.runChecked('searching the work for secrets', {
    args: ['cat-file', OBJECT_FORMAT, '--buffer'],
    folder,
    isUntrusted: true,
    input: list,
    readOutput: (output) => readObjects(output, reader),
    timeoutMs: SECRET_SEARCH_MS_MAX,
  })
  if (reader.found !== undefined) return no('invalid', reader.found)
  return ran.ok ? yes(undefined) : ran
}

class SearchingReader implements ObjectReader {
  /** The sentence about the first secret. */
  found: string | undefined
  readonly #search: SecretSearch
  readonly #scan: ContentScan
  #object: GitObject | undefined

  constructor(search: SecretSearch) {
    this.#search = search
    this.#scan = new ContentScan(search)
  }

  begin(object: GitObject): void {
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
}

/** The place with its name, and without it. */
function describePlace({ id, type, note }: GitObject): readonly [place: string, unnamed: string] {
  const path = truncate(printable(note), PATH_CHARS_MAX)
  if (type === 'blob') return [`the file ${path}`, 'a file']
  if (type === 'tree')
    return [path === '' ? 'the name of a file' : `the name of a file in ${path}`, 'the name of a file']
  return [`the message of commit ${id.slice(0, 12)}`, 'the message of a commit']
}
