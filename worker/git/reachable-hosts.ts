/**
 * `findReachableHosts` finds the hosts that the sandbox of a job reaches besides `sandbox.allowedHosts`: the code host,
 * and the registries of the lock files at a commit of the base branch.
 */
import { CODE_HOST_FACTS } from '../../protocol/drivers.ts'
import type { Job } from '../../protocol/frames.ts'
import { type ReachableHosts, RegistryHosts } from '../registries/registry-hosts.ts'
import type { Git } from './git.ts'
import { type LockFileRequest, readLockFiles } from './lock-files.ts'
import type { RemoteRepository } from './mirror-cache.ts'
import { DEFAULT_CODE_HOST } from './resolve-remote.ts'

export interface ReachableHostsRequest extends LockFileRequest {
  readonly job: Job
  readonly repository: RemoteRepository
}

/** undefined: the network of the job does not depend on hosts. Lock files that cannot be read cost only their hosts. */
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
