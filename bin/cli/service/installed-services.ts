/**
 * The services that are installed: their files, whether the host runs its worker itself, and their removal; and the
 * worker of this machine.
 */
import { mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Client } from '../../../client/client.ts'
import { quoteWord } from '../../../protocol/quote-word.ts'
import type { WorkerView } from '../../../protocol/worker.ts'
import { replaceFile } from '../../../store/files/atomic.ts'
import { readStoredCredential } from '../../../worker/identity-files.ts'
import { refusedError } from '../../process/exit.ts'
import { clientOf } from './running-host.ts'
import { BY_SWITCHYARD, type ManagerRunner, runServiceCommand, type Service } from './service-manager.ts'

/** Refuses a file without the mark of `service install`. Undefined without a file. */
export async function readOwnFile({ file }: Pick<Service, 'file'>): Promise<string | undefined> {
  const text = await readFile(file, 'utf8').catch((error) => {
    if (error.code === 'ENOENT') return undefined
    throw refusedError(`${file} cannot be read (${error.code})`)
  })
  if (text === undefined || text.includes(BY_SWITCHYARD)) return text
  throw refusedError(
    `${file} was not written by switchyard; nothing was changed`,
    `mv ${quoteWord(file)} ${quoteWord(`${file}.old`)}`,
  )
}

/** Whether the worker of this machine ends with this host. @param content the file of the host's service */
export const runsOwnWorker = (content: string | undefined): boolean =>
  content !== undefined && !content.includes('--no-local-worker')

/** A host that does not answer has a worker that goes on by itself, or none. */
export async function requireNoRunOfOwnWorker(dataDir: string, command: string): Promise<void> {
  const worker = await findMachineWorker(dataDir, clientOf(dataDir)).catch(() => undefined)
  const count = worker?.activeRuns ?? 0
  if (count === 0) return
  throw refusedError(
    `${count === 1 ? 'a run is' : `${count} runs are`} at work on this machine, and would be interrupted; nothing was changed`,
    `switchyard pause --wait, then: ${command}, then: switchyard resume`,
  )
}

export async function removeService(run: ManagerRunner, service: Service): Promise<void> {
  for (const command of service.beforeRemoval) await runServiceCommand(run, command)
  await rm(service.file, { force: true })
  for (const command of service.afterRemoval) await runServiceCommand(run, command)
}

// ---- the worker of this machine ------------------------------------------------------------------------------------

/**
 * The worker of the host's own machine, which may be a service of its own: where it lies, and how it is paired.
 *
 * Its data directory is the one of the worker that the host would run itself. So it is the same worker with the same
 * sandboxes, whichever of the two starts it, and the lock of the directory keeps a second one away.
 */
export const workerFolderOf = (dataDir: string): string => join(dataDir, 'worker')
export const tokenFileOf = (dataDir: string): string => join(workerFolderOf(dataDir), 'token')

/** Finds the worker of this directory as its host knows it. */
export async function findMachineWorker(dataDir: string, client: Client): Promise<WorkerView | undefined> {
  const stored = await readStoredCredential(join(workerFolderOf(dataDir), 'credential.json'))
  if (stored === undefined) return undefined
  const { workers } = await client.listWorkers()
  return workers.find(({ id }) => id === stored.workerId)
}

/**
 * Leaves a token for the worker, which redeems it at its start, unless the worker is enrolled. Returns whether it did.
 */
export async function pairMachineWorker(dataDir: string, client: Client): Promise<boolean> {
  if ((await findMachineWorker(dataDir, client)) !== undefined) return false
  const { token } = await client.mintPairingToken()
  await mkdir(workerFolderOf(dataDir), { recursive: true, mode: 0o700 })
  await replaceFile(tokenFileOf(dataDir), `${token}\n`)
  return true
}
