/** The local worker: how its process ended, to decide when to start it again, and what it may reach. */
import type { ServiceConfig } from '../../protocol/config.ts'
import { CODE_HOST_FACTS } from '../../protocol/drivers.ts'
import { originsOfHostEntry } from '../../protocol/git-address.ts'
import type { LocalWorkerExit, LocalWorkerSettings } from '../ports/machines.ts'

/**
 * `unauthorized`: the host does not know the worker any more; a new pairing token admits it. `unrecoverable`: a
 * person or at least time is needed. `died`: anything else, which a new start may cure.
 */
export type LocalWorkerExitKind = 'unauthorized' | 'unrecoverable' | 'died'

/** Exit codes as the worker command documents them. */
const UNAUTHORIZED_CODE = 77
const UNRECOVERABLE_CODES: ReadonlySet<number> = new Set([2, 65, 69, 76])
const DESCRIPTIONS: Readonly<Record<number, string>> = {
  0: 'somebody stopped it',
  2: 'its command line was refused',
  65: 'its data was written by a newer version',
  69: 'it found no sandbox',
  70: 'something inside broke, or its disk did',
  75: 'another worker uses its folder or its credential',
  76: 'host and worker do not understand each other',
  77: 'the host does not know it, or its token or key was refused',
}

export function classifyExit({ code }: LocalWorkerExit): LocalWorkerExitKind {
  if (code === UNAUTHORIZED_CODE) return 'unauthorized'
  return code !== undefined && UNRECOVERABLE_CODES.has(code) ? 'unrecoverable' : 'died'
}

export function describeExit({ code, signal }: LocalWorkerExit): string {
  if (code === undefined) return `it was ended by ${signal ?? 'a signal'}`
  return DESCRIPTIONS[code] ?? `it ended with exit code ${code}`
}

/**
 * Derives what the local worker may reach from the configuration: the code host, whether a folder or a server. Clone
 * URLs are left out: whoever starts the host names their folders and private hosts (`--local-repos`).
 */
export function localWorkerSettings({ sandbox, codehost }: ServiceConfig): LocalWorkerSettings {
  const { driver, path, apiUrl } = codehost
  const isFolder = CODE_HOST_FACTS[driver].folderHolds !== undefined
  return {
    concurrency: sandbox.concurrency,
    codeHostFolder: isFolder ? (path ?? null) : null,
    codeHostOrigin: isFolder || apiUrl === undefined ? null : codeHostOriginOf(apiUrl),
  }
}

/** Null for a host that git's addresses cannot name: the worker would refuse to start with it. */
function codeHostOriginOf(url: string): string | null {
  const { protocol, hostname, port } = new URL(url)
  const [origin] = originsOfHostEntry(`${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`)
  return origin ?? null
}
