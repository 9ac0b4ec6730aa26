/**
 * `dropKnownKeys` leaves out keys that the same file holds in a commit which the code host has already: a change
 * elsewhere in such a file gives away nothing new.
 */
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Refused, type Result, yes } from '../../core/result.ts'
import { SECRET_SEARCH_MS_MAX } from '../../protocol/limits.ts'
import { hashOf, type MarkedKey } from '../secrets/found-keys.ts'
import { KeyScan } from '../secrets/key-scan.ts'
import type { Git } from './git.ts'
import { OBJECT_FORMAT, readObjects } from './object-stream.ts'

/** A key in a new object. */
export type KeyInWork = MarkedKey & {
  /** The path of its file, for which it is compared with what is known; undefined elsewhere. */
  readonly path: string | undefined
  readonly hash: string
}

interface KnownPlaces {
  readonly folder: string
  readonly staging: string
  readonly known: readonly string[]
}

const LIST_FILE = 'known-keys.list'
const OBJECT_ID = /^[0-9a-f]{40,64}$/

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
  const input = join(staging, LIST_FILE)
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
  const input = join(staging, LIST_FILE)
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
