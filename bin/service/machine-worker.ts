/**
 * The worker of the host's own machine, which may be a service of its own: where it lies, and how it is paired.
 *
 * Its data directory is the one of the worker that the host would run itself. So it is the same worker with the same
 * sandboxes, whichever of the two starts it, and the lock of the directory keeps a second one away.
 */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Client } from '../../client/client.ts'
import type { WorkerView } from '../../protocol/worker.ts'
import { replaceFile } from '../../store/files/atomic.ts'
import { readStoredCredential } from '../../worker/identity-files.ts'

export const workerFolderOf = (dataDir: string): string => join(dataDir, 'worker')
export const tokenFileOf = (dataDir: string): string => join(workerFolderOf(dataDir), 'token')

/** Finds the worker of this directory as its host knows it. */
export async function findMachineWorker(dataDir: string, client: Client): Promise<WorkerView | undefined> {
  const stored = await readStoredCredential(join(workerFolderOf(dataDir), 'credential.json'))
  if (stored === undefined) return undefined
  const { workers } = await client.listWorkers()
  return workers.find(({ id }) => id === stored.workerId)
}

/** Leaves a token for the worker, which redeems it at its start, unless the worker is enrolled. Returns whether it did. */
export async function pairMachineWorker(dataDir: string, client: Client): Promise<boolean> {
  if ((await findMachineWorker(dataDir, client)) !== undefined) return false
  const { token } = await client.mintPairingToken()
  await mkdir(workerFolderOf(dataDir), { recursive: true, mode: 0o700 })
  await replaceFile(tokenFileOf(dataDir), `${token}\n`)
  return true
}
