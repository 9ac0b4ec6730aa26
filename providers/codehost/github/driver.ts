/** The driver of github.com and GitHub Enterprise Server. */
import { no, yes } from '../../../core/result.ts'
import { pollOwnDevice, startOwnDevice } from '../../accounts/device.ts'
import { checkGithub } from '../../accounts/github.ts'
import type { CodeHostDriver } from '../code-host-driver.ts'
import { createGithubApi } from './api.ts'
import { createGithubCodeHost } from './code-host.ts'
import { parseGithubAddress } from './endpoint.ts'
import { createGithubPullHost, parseGithubPullUrl } from './pulls.ts'
import { readPushRight } from './rights.ts'

const NOT_CONNECTED = no(
  'invalid',
  'the code host is not connected; connect GitHub, or give it a token as codehostToken',
)

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
