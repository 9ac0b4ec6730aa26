/** The driver of github.com and GitHub Enterprise Server. */
import { no, type Result, yes } from '../../../core/result.ts'
import { pollOwnDevice, startOwnDevice } from '../../accounts/device.ts'
import { checkGithub } from '../../accounts/github.ts'
import { parseGithubAddress } from '../../github/address.ts'
import { createGithubApi, type GithubApi, repoPath } from '../../github/api.ts'
import { readField } from '../../http/reply-fields.ts'
import type { CodeHostDriver } from '../code-host-driver.ts'
import { createGithubCodeHost } from './code-host.ts'
import { createGithubPullHost, parseGithubPullUrl } from './pulls.ts'

const NOT_CONNECTED = no('invalid', 'the code host is not connected; connect GitHub first')

export const githubCodeHostDriver: CodeHostDriver = {
  createCodeHost: ({ apiUrl }, token, { http, clock }) =>
    createGithubCodeHost({
      http,
      clock,
      ...(apiUrl === undefined ? {} : { apiUrl }),
      ...(token === undefined ? {} : { token }),
    }),
  createPullHost({ apiUrl, token }, { clients, clock }) {
    if (token === undefined || token === '') return NOT_CONNECTED
    const api = createGithubApi({ apiUrl, token }, clients)
    return api.ok ? yes(createGithubPullHost(api.value, clock)) : api
  },
  parsePullUrl({ apiUrl }, url) {
    const address = parseGithubAddress(apiUrl)
    return address.ok ? parseGithubPullUrl(address.value, url) : undefined
  },
  checkAccount: ({ apiUrl, token = '' }, clients) =>
    checkGithub(clients, { apiUrl, token, apiUrlField: 'codehost.apiUrl' }),
  async mayPush({ apiUrl, token = '' }, remote, clients) {
    const api = createGithubApi({ apiUrl, token }, clients)
    return api.ok ? readPushRight(api.value, remote) : api
  },
  deviceFlow: yes({
    adviceWithoutHelper:
      'give a token of GitHub, set connect.codehostClientId to an application of your own with Device Flow enabled',
    start: startOwnDevice,
    poll: pollOwnDevice,
  }),
}

/** Reads what GitHub lets the token's owner do with a repository. A fine-grained token may have fewer rights still. */
async function readPushRight(api: GithubApi, remote: string): Promise<Result<boolean>> {
  const path = repoPath(remote)
  if (!path.ok) return path
  const repo = await api.read(path.value, `repository ${remote}`, 'person')
  return repo.ok ? yes(readField(readField(repo.value, 'permissions'), 'push') !== false) : repo
}
