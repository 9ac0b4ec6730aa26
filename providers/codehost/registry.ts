/** Creates the code host that a job names, with the credential that the job carries. */
import type { Clock, CodeHost } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { JobCodehost } from '../../protocol/frames.ts'
import type { Http } from '../http/http.ts'
import { createGithubCodeHost } from './github/code-host.ts'
import { createLocalCodeHost } from './local/code-host.ts'

export interface CodeHostPorts {
  readonly http: Http
  readonly clock: Pick<Clock, 'now' | 'after'>
}

const GITHUB_BY_DEFAULT: JobCodehost = { driver: 'github' }

export function createCodeHost(
  codehost: JobCodehost | undefined,
  token: string | undefined,
  ports: CodeHostPorts,
): Result<CodeHost> {
  const { driver, apiUrl, path } = codehost ?? GITHUB_BY_DEFAULT
  if (driver === 'github') {
    return createGithubCodeHost({
      http: ports.http,
      clock: ports.clock,
      ...(apiUrl === undefined ? {} : { apiUrl }),
      ...(token === undefined ? {} : { token }),
    })
  }
  if (path === undefined || path === '') {
    return no('invalid', 'codehost.path: the local code host needs the folder that holds its repositories')
  }
  return yes(createLocalCodeHost({ path, clock: ports.clock }))
}
