/**
 * `guardCodeHost` lets a job's code host act only while the worker's policy allows its folder or its API address.
 *
 * `guardHttp` makes each connection of its requests stay at public addresses, unless the operator named the host.
 */
import type { CodeHost } from '../../core/ports.ts'
import { type Result, yes } from '../../core/result.ts'
import type { JobCodehost } from '../../protocol/frames.ts'
import type { Http } from '../../providers/http/http-types.ts'
import type { RemotePolicy } from './remote-policy.ts'

export function guardCodeHost(
  codehost: CodeHost,
  { path, apiUrl }: Pick<JobCodehost, 'path' | 'apiUrl'>,
  policy: RemotePolicy,
): CodeHost {
  const check = async (): Promise<Result<unknown>> => {
    if (path !== undefined) return policy.localRepositories.findFolder(path)
    return apiUrl === undefined ? yes(undefined) : policy.check(`${new URL(apiUrl).origin}/`)
  }
  const guarded = async <T>(act: () => Promise<Result<T>>): Promise<Result<T>> => {
    const checked = await check()
    // The options of the worker forbid the address, and no run can change them.
    return checked.ok ? act() : { ok: false, refusal: { ...checked.refusal, failure: 'configuration' } }
  }
  return {
    gitAddress: (remote) => codehost.gitAddress(remote),
    findPull: (...call) => guarded(() => codehost.findPull(...call)),
    openPull: (...call) => guarded(() => codehost.openPull(...call)),
    hasComment: (...call) => guarded(() => codehost.hasComment(...call)),
    comment: (...call) => guarded(() => codehost.comment(...call)),
    dropRepeats: (...call) => guarded(() => codehost.dropRepeats(...call)),
  }
}

/** Keeps requests to `apiUrl` at public addresses, because after the check its name may resolve to private ones. */
export function guardHttp(http: Http, { apiUrl }: Pick<JobCodehost, 'apiUrl'>, policy: RemotePolicy): Http {
  if (apiUrl === undefined) return http
  if (URL.canParse(apiUrl) && policy.isPrivateHost(new URL(apiUrl))) return http
  return {
    send: (request) => http.send({ ...request, publicOnly: true }),
    close: () => http.close(),
  }
}
