/** Which code host a job asks for, with the credential that it brings. */
import type { Clock, CodeHost } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { JobCodehost } from '../../protocol/frames.ts'
import type { Http } from '../http/http.ts'
import { githubCodeHost } from './github.ts'
import { localCodeHost } from './local.ts'

export interface CodeHostPorts {
  readonly http: Http
  readonly clock: Pick<Clock, 'now' | 'after'>
}

const GITHUB: JobCodehost = { driver: 'github' }

export function codeHostFor(
  codehost: JobCodehost | undefined,
  token: string | undefined,
  ports: CodeHostPorts,
): Result<CodeHost> {
  const { driver, apiUrl, path } = codehost ?? GITHUB
  if (driver === 'github') {
    return githubCodeHost({
      http: ports.http,
      clock: ports.clock,
      ...(apiUrl === undefined ? {} : { apiUrl }),
      ...(token === undefined ? {} : { token }),
    })
  }
  if (path === undefined || path === '') {
    return no('invalid', 'codehost.path: the local code host needs the folder that holds its repositories')
  }
  return yes(localCodeHost({ path, clock: ports.clock }))
}
