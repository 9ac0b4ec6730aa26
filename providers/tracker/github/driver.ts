/** The driver of GitHub issues. */
import { no } from '../../../core/result.ts'
import { checkGithub } from '../../accounts/github.ts'
import type { TrackerDriver } from '../tracker-driver.ts'
import { resolveGithubAccount } from './account.ts'
import { createGithubTracker } from './tracker.ts'

const NO_TOKEN = no('invalid', 'there is no token to check; give one')

export const githubTrackerDriver: TrackerDriver = {
  create: (config, ports) =>
    resolveGithubAccount(config) === undefined ? undefined : createGithubTracker({ ...ports, config }),
  async checkAccount(config, clients) {
    const account = resolveGithubAccount(config)
    return account === undefined ? NO_TOKEN : checkGithub(clients, account)
  },
  consent: no(
    'invalid',
    'issues of GitHub are read with a token: give one, or connect the code host, whose token does',
  ),
}
