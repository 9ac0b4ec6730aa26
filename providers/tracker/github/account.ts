/**
 * Selects the GitHub address and token for reading issues.
 *
 * Without a token of its own, the tracker uses the code host's token, provided that both have the same address.
 */
import type { ServiceConfig } from '../../../protocol/config.ts'
import type { GithubAccount } from '../../codehost/github/api.ts'
import { GITHUB_API } from '../../codehost/github/endpoint.ts'

/** Undefined when no token is configured. */
export function resolveGithubAccount({ tracker, codehost }: ServiceConfig): GithubAccount | undefined {
  const apiUrl = tracker.apiUrl ?? (codehost.driver === 'github' ? codehost.apiUrl : undefined)
  const isSamePlace = codehost.driver === 'github' && isSameAddress(apiUrl, codehost.apiUrl)
  const token = tracker.apiKey || (isSamePlace ? codehost.token : undefined)
  if (token === undefined || token === '') return undefined
  return { token, apiUrl, apiUrlField: tracker.apiUrl === undefined ? 'codehost.apiUrl' : 'tracker.apiUrl' }
}

const isSameAddress = (a = GITHUB_API, b = GITHUB_API): boolean =>
  a.replace(/\/+$/, '') === b.replace(/\/+$/, '')
