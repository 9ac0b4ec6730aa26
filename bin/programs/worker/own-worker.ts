/**
 * Notes of a worker in its data directory for other programs of its machine: the host that it dials, and that somebody
 * drained it here.
 *
 * `worker drain` writes its note before it drains. A worker that starts ends that drain, and deletes the note when the
 * host has answered.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { findUser } from '../../../client/peer-owner.ts'
import { backoffMs } from '../../../core/backoff.ts'
import type { DemandPort } from '../../../core/fleet/supervision.ts'
import type { Log } from '../../../core/ports/log.ts'
import { SUPERVISOR_RETRY_MS_FIRST, SUPERVISOR_RETRY_MS_MAX } from '../../../protocol/limits.ts'
import { removeFileDurably, replaceFile } from '../../../store/files/atomic.ts'
import { createDemandClient } from '../../../worker/dial-demand.ts'
import { realClock, realRandom } from '../../process/clock.ts'
import { usageError } from '../../process/exit.ts'
import type { HostChoice, HostRoute } from './resolve-host.ts'

const hostFile = (dataDir: string): string => join(dataDir, 'host.json')
const drainFile = (dataDir: string): string => join(dataDir, 'drained.json')
export const credentialFileOf = (dataDir: string): string => join(dataDir, 'credential.json')

export async function noteHost(dataDir: string, choice: HostChoice): Promise<void> {
  const { host, hostDataDir, caFile, insecure, fingerprint, hostKey } = choice
  // A name may stand for another user when the container is replaced.
  const hostUser = findUser(choice.hostUser ?? '')?.toString() ?? choice.hostUser
  const note = { host, hostDataDir, caFile, insecure, fingerprint, hostKey, hostUser }
  await replaceFile(hostFile(dataDir), `${JSON.stringify(note)}\n`)
}

/** Adds the pin and the user by which this data directory's worker knows the host, unless others are given. */
export function withNotedTrust<O extends HostChoice>(dataDir: string, options: O): O {
  const noted = readNote(hostFile(dataDir))
  if (noted === undefined || options.host === undefined || Reflect.get(noted, 'host') !== options.host)
    return options
  const { fingerprint, hostKey } = pinIn(noted)
  const isSame = options.fingerprint === undefined || options.fingerprint === fingerprint
  const pin = isSame && fingerprint !== undefined ? { fingerprint, hostKey } : {}
  return { ...userIn(noted), ...options, ...pin }
}

function userIn(note: object): Pick<HostChoice, 'hostUser'> {
  const hostUser: unknown = Reflect.get(note, 'hostUser')
  return typeof hostUser === 'string' ? { hostUser } : {}
}

function pinIn(note: object): Pick<HostChoice, 'fingerprint' | 'hostKey'> {
  const [fingerprint, hostKey] = [Reflect.get(note, 'fingerprint'), Reflect.get(note, 'hostKey')]
  return {
    ...(typeof fingerprint === 'string' ? { fingerprint } : {}),
    ...(typeof hostKey === 'string' ? { hostKey } : {}),
  }
}

/** Returns how the worker of this data directory was started to reach its host. */
export function readNotedHost(dataDir: string): HostChoice {
  const noted = readNote(hostFile(dataDir))
  if (noted === undefined)
    throw usageError(
      `no worker was started with the data directory ${dataDir}: name it with --data-dir, or the host with --host`,
    )
  const texts = (['host', 'hostDataDir', 'caFile'] as const).flatMap((name) => {
    const value: unknown = Reflect.get(noted, name)
    return typeof value === 'string' ? [[name, value] as const] : []
  })
  return {
    ...Object.fromEntries(texts),
    ...(Reflect.get(noted, 'insecure') === true ? { insecure: true as const } : {}),
    ...pinIn(noted),
    ...userIn(noted),
  }
}

/** @param holder in whose name the worker is drained */
export const ownDemandClient = (
  dataDir: string,
  route: HostRoute,
  holder: 'worker' | 'supervisor',
  credentialFile = credentialFileOf(dataDir),
): DemandPort => createDemandClient({ ...route, credentialFile, holder })

export async function noteDrain(dataDir: string): Promise<void> {
  await replaceFile(drainFile(dataDir), '{}\n')
}

/** Ends the drain of `worker drain`, if there was one, as soon as the host answers. */
export function endNotedDrain(dataDir: string, demand: DemandPort, log: Log): void {
  if (readNote(drainFile(dataDir)) === undefined) return
  const attempt = async (failures: number) => {
    const answer = await demand.ask('lift')
    if (answer.is === 'answered') {
      log.info({}, 'the drain of "worker drain" ends with this start')
      await removeFileDurably(drainFile(dataDir))
      return
    }
    if (failures === 0)
      log.warn({ reason: answer.reason }, 'the drain of "worker drain" could not be ended; trying again')
    const pause = backoffMs(
      failures + 1,
      SUPERVISOR_RETRY_MS_FIRST,
      SUPERVISOR_RETRY_MS_MAX,
      realRandom.fraction(),
    )
    realClock.after(pause, () => void attempt(failures + 1))
  }
  void attempt(0).catch((error) => log.warn({ err: error }, 'the note of a drain could not be deleted'))
}

/** Undefined when there is none, or when it cannot be read. */
function readNote(path: string): object | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(path, 'utf8'))
    return typeof value === 'object' && value !== null ? value : undefined
  } catch {
    return undefined
  }
}
