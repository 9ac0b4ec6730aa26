/** The services that are installed: their files, whether the host runs its worker itself, and their removal. */
import { readFile, rm } from 'node:fs/promises'
import { quoteWord } from '../../protocol/quote-word.ts'
import { EXIT, ExitError } from '../exit.ts'
import { findMachineWorker } from './machine-worker.ts'
import { type ManagerRunner, runServiceCommand } from './run-manager.ts'
import { clientOf } from './running-host.ts'
import { BY_SWITCHYARD, type Service } from './service-manager.ts'

/** Refuses a file without the mark of `service install`. Undefined without a file. */
export async function readOwnFile({ file }: Pick<Service, 'file'>): Promise<string | undefined> {
  const text = await readFile(file, 'utf8').catch((error) => {
    if (error.code === 'ENOENT') return undefined
    throw new ExitError(EXIT.refused, `${file} cannot be read (${error.code})`)
  })
  if (text === undefined || text.includes(BY_SWITCHYARD)) return text
  throw new ExitError(
    EXIT.refused,
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
  throw new ExitError(
    EXIT.refused,
    `${count === 1 ? 'a run is' : `${count} runs are`} at work on this machine, and would be interrupted; nothing was changed`,
    `switchyard pause --wait, then: ${command}, then: switchyard resume`,
  )
}

export async function removeService(run: ManagerRunner, service: Service): Promise<void> {
  for (const command of service.beforeRemoval) await runServiceCommand(run, command)
  await rm(service.file, { force: true })
  for (const command of service.afterRemoval) await runServiceCommand(run, command)
}
