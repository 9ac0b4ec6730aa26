/**
 * Derives what the local worker may reach from the configuration: the code host, whether a folder or a server. Clone
 * URLs are left out: whoever starts the host names their folders and private hosts (`--local-repos`).
 */
import type { ServiceConfig } from '../../protocol/config.ts'
import { CODE_HOST_FACTS } from '../../protocol/drivers.ts'
import type { LocalWorkerSettings } from '../ports.ts'

export function localWorkerSettings({ sandbox, codehost }: ServiceConfig): LocalWorkerSettings {
  const { driver, path, apiUrl } = codehost
  const isFolder = CODE_HOST_FACTS[driver].folderHolds !== undefined
  return {
    concurrency: sandbox.concurrency,
    codeHostFolder: isFolder ? (path ?? null) : null,
    codeHostOrigin: isFolder || apiUrl === undefined ? null : hostAndPort(apiUrl),
  }
}

function hostAndPort(url: string): string {
  const { protocol, hostname, port } = new URL(url)
  return `${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`
}
