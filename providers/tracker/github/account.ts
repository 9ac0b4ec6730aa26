/**
 * Selects the GitHub address and token for reading issues.
 *
 * Without a token of its own, the tracker uses the code host's token, provided that both have the same address.
 */
import { isTrackerAtCodeHost } from '../../../core/settings/credential-origins.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import type { GithubAccount } from '../../github/api.ts'

/** Undefined when no token is configured. */
export function resolveGithubAccount(config: ServiceConfig): GithubAccount | undefined {
  const { tracker, codehost } = config
  const apiUrl = tracker.apiUrl ?? (codehost.driver === 'github' ? codehost.apiUrl : undefined)
  const token = tracker.apiKey || (isTrackerAtCodeHost(config) ? codehost.token : undefined)
  if (token === undefined || token === '') return undefined
  return { token, apiUrl, apiUrlField: tracker.apiUrl === undefined ? 'codehost.apiUrl' : 'tracker.apiUrl' }
}
