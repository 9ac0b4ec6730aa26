/** The code host registry lists the drivers, and creates the code host that a job or the configuration names. */
import type { CodeHost, PullReference, PullRequestApi } from '../../core/ports/code-host.ts'
import type { Result } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { CodeHostDriverName } from '../../protocol/drivers.ts'
import type { JobCodehost } from '../../protocol/frames.ts'
import type { CodeHostDriver, CodeHostPorts, PullHostPorts } from './code-host-driver.ts'
import { githubCodeHostDriver } from './github/driver.ts'
import { localCodeHostDriver } from './local/driver.ts'

export const CODE_HOST_REGISTRY: Readonly<Record<CodeHostDriverName, CodeHostDriver>> = {
  github: githubCodeHostDriver,
  local: localCodeHostDriver,
}

const GITHUB_BY_DEFAULT: JobCodehost = { driver: 'github' }

/** Creates the code host that a job names, with the credential that the job carries. */
export function createCodeHost(
  codehost: JobCodehost | undefined,
  token: string | undefined,
  ports: CodeHostPorts,
): Result<CodeHost> {
  const chosen = codehost ?? GITHUB_BY_DEFAULT
  return CODE_HOST_REGISTRY[chosen.driver].createCodeHost(chosen, token, ports)
}

/** Creates the code host that the configuration names, for the pull request pages of the dashboard. */
export function createPullHost({ codehost }: ServiceConfig, ports: PullHostPorts): Result<PullRequestApi> {
  return CODE_HOST_REGISTRY[codehost.driver].createPullHost(codehost, ports)
}

/** Returns the pull request that a URL points to at the code host that the configuration names, connected or not. */
export function parsePullUrl({ codehost }: ServiceConfig, url: string): PullReference | undefined {
  return CODE_HOST_REGISTRY[codehost.driver].parsePullUrl(codehost, url)
}
