/**
 * `findReachableHosts` finds the hosts that the sandbox of a job reaches besides `sandbox.allowedHosts`: the code
 * host, and the registries of the lock files.
 *
 * The lock files are read from the worker's mirror, at a commit of the base branch, never of an agent. Only plain
 * files count, of limited number and size.
 */
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Result, yes } from '../../../core/result.ts'
import { CODE_HOST_FACTS } from '../../../protocol/drivers.ts'
import type { Job } from '../../../protocol/frames.ts'
import { type ReachableHosts, RegistryHosts, registryFileOf } from '../../registries/registry-hosts.ts'
import type { Git } from '../git.ts'
import type { RemoteRepository } from '../mirror/mirror-cache.ts'
import { DEFAULT_CODE_HOST } from '../resolve-remote.ts'
import { type GitObject, OBJECT_FORMAT, type ObjectReader, readObjects } from '../work/object-stream.ts'

/** Lock files and manifests that are looked at, and the bytes of each. */
const LOCK_FILES_MAX = 100
export const LOCK_FILE_BYTES_MAX = 8 * 1024 * 1024

export interface LockFileRequest {
  /** The mirror. */
  readonly folder: string
  readonly commit: string
  /** The worker's own folder of the run. */
  readonly staging: string
  readonly signal: AbortSignal
}

interface ReachableHostsRequest extends LockFileRequest {
  readonly job: Job
  readonly repository: RemoteRepository
}

/**
 * undefined: the network of the job does not depend on hosts. Lock files that cannot be read cost only their hosts.
 */
export async function findReachableHosts(
  git: Git,
  { job, repository, ...request }: ReachableHostsRequest,
): Promise<ReachableHosts | undefined> {
  if (job.sandbox?.network !== 'allowlist') return undefined
  const hosts = new RegistryHosts()
  const read = await readLockFiles(git, request, hosts)
  const { driver, apiUrl } = job.codehost ?? DEFAULT_CODE_HOST
  const api = apiUrl ?? CODE_HOST_FACTS[driver].publicApiUrl
  const found = hosts.derive([repository.remote.address, ...(api === undefined ? [] : [api])])
  if (read.ok) return found
  return {
    ...found,
    leftOut: [...found.leftOut, `the lock files could not be read: ${read.refusal.message}`],
  }
}

interface FoundFile {
  readonly id: string
  readonly path: string
}

const READ_MS_MAX = 60_000
const LIST_FILE = 'lock-files.list'
/** Files beyond this number are not looked at. */
const CANDIDATES_MAX = 10_000

export async function readLockFiles(
  git: Git,
  request: LockFileRequest,
  hosts: RegistryHosts,
): Promise<Result<unknown>> {
  const found: FoundFile[] = []
  const { folder, commit, signal } = request
  const listed = await git.runChecked('looking for lock files', {
    args: ['ls-tree', '-r', '-z', '--full-tree', commit],
    folder,
    signal,
    readOutput: (output) => readEntries(output, found),
    timeoutMs: READ_MS_MAX,
  })
  if (!listed.ok) return listed
  const chosen = found.sort(byRoleAndDepth).slice(0, LOCK_FILES_MAX)
  return readFiles(git, request, chosen, hosts)
}

/** Lock files come first, and those near the root. */
function byRoleAndDepth(a: FoundFile, b: FoundFile): number {
  const isManifest = ({ path }: FoundFile) => Number(registryFileOf(path)?.role === 'manifest')
  const depth = ({ path }: FoundFile) => path.split('/').length
  return isManifest(a) - isManifest(b) || depth(a) - depth(b) || (a.path < b.path ? -1 : 1)
}

// ---- the list ----------------------------------------------------------------------------------------------------

const PLAIN_FILE = /^100(?:644|755) blob ([0-9a-f]{40,64})\t([^\n]+)$/s

async function readEntries(output: AsyncIterable<Buffer>, found: FoundFile[]): Promise<void> {
  let rest = ''
  for await (const piece of output) {
    const entries = (rest + piece.toString('latin1')).split('\0')
    rest = entries.pop() ?? ''
    for (const entry of entries) addEntry(entry, found)
  }
}

function addEntry(entry: string, found: FoundFile[]): void {
  const [, id, path] = PLAIN_FILE.exec(entry) ?? []
  if (id === undefined || path === undefined || found.length >= CANDIDATES_MAX) return
  if (registryFileOf(path) !== undefined) found.push({ id, path })
}

// ---- the files ---------------------------------------------------------------------------------------------------

async function readFiles(
  git: Git,
  { folder, staging, signal }: LockFileRequest,
  files: readonly FoundFile[],
  hosts: RegistryHosts,
): Promise<Result<unknown>> {
  if (files.length === 0) return yes(undefined)
  const input = join(staging, LIST_FILE)
  await mkdir(staging, { recursive: true, mode: 0o700 })
  await writeFile(input, files.map(({ id, path }) => `${id} ${path}\n`).join(''), 'latin1')
  const read = await git.runChecked('reading lock files', {
    args: ['cat-file', OBJECT_FORMAT, '--buffer'],
    folder,
    input,
    signal,
    readOutput: (output) => readObjects(output, new LockFileReader(hosts)),
    timeoutMs: READ_MS_MAX,
  })
  await rm(input, { force: true })
  return read
}

/** Keeps the beginning of one file at a time. */
class LockFileReader implements ObjectReader {
  readonly #hosts: RegistryHosts
  #path = ''
  #pieces: Buffer[] = []
  #bytes = 0

  constructor(hosts: RegistryHosts) {
    this.#hosts = hosts
  }

  begin({ note }: GitObject): void {
    this.#path = note
    this.#pieces = []
    this.#bytes = 0
  }

  push(piece: Buffer): undefined {
    const kept = piece.subarray(0, LOCK_FILE_BYTES_MAX - this.#bytes)
    this.#bytes += kept.length
    this.#pieces.push(Buffer.from(kept))
  }

  end(): undefined {
    this.#hosts.add(this.#path, Buffer.concat(this.#pieces).toString('latin1'))
    this.#pieces = []
  }
}
