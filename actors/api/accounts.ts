/**
 * API calls about credentials, connecting accounts and the bucket. While nothing may be changed nothing may be
 * connected either, because the credential could not be saved.
 */
import { no, type Result, yes } from '../../core/result.ts'
import { renderPage } from '../accounts/callback-page.ts'
import type { ApiDependencies } from './api-dependencies.ts'
import type { HostApi } from './host-api.ts'
import { toApiResult } from './pull-requests.ts'

type AccountsApi = Pick<
  HostApi,
  | 'changeCredentials'
  | 'connect'
  | 'pollCodehost'
  | 'trackerCallback'
  | 'pasteTrackerAddress'
  | 'storage'
  | 'connectStorage'
  | 'trackerStatus'
  | 'trackerProjects'
>

export function createAccountsApi({ views, mayChange }: ApiDependencies): AccountsApi {
  const { accounts, tracker } = views
  /** This check comes first, whatever else is wrong. */
  const ifChangeable = async <T>(ask: () => Promise<Result<T>>): Promise<Result<T>> => {
    const may = mayChange()
    return may.ok ? ask() : may
  }
  return {
    changeCredentials: (request) => ifChangeable(() => accounts.changeCredentials(request)),
    connect: (provider) => ifChangeable(() => accounts.connect(provider)),
    async pollCodehost() {
      const may = mayChange()
      return may.ok ? accounts.pollCodehost() : { status: 'pending' }
    },
    async trackerCallback(query) {
      const page = await accounts.handleTrackerCallback(query)
      return { status: page.status, html: renderPage(page) }
    },
    pasteTrackerAddress: (address) => ifChangeable(() => accounts.handlePastedCallback(address)),
    storage: () => accounts.storageStatus(),
    connectStorage: () => ifChangeable(async () => yes(await accounts.connectStorage())),
    trackerStatus: () => tracker.status(),
    async trackerProjects() {
      if (!tracker.connection.isConnected) return no('invalid', 'no tracker is connected; connect one first')
      return toApiResult(await tracker.connection.ask((tracker) => tracker.projects()))
    },
  }
}
