/**
 * Derives what the local worker may reach from the configuration: the code host, whether a folder or a server. Clone
 * URLs are left out: whoever starts the host names their folders and private hosts (`--local-repos`).
 */
import type { ServiceConfig } from '../../protocol/config.ts'
import { CODE_HOST_FACTS } from '../../protocol/drivers.ts'
import { originsOfHostEntry } from '../../protocol/git-address.ts'
import type { LocalWorkerSettings } from '../ports.ts'

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
