/**
 * The front desk's part about credentials, connecting and the bucket. Who may not change anything just now may not
 * connect either: what comes of it could not be kept.
 */
import { no, type Result, yes } from '../../core/result.ts'
import type { AccountManager } from '../accounts/account-manager.ts'
import { renderPage } from '../accounts/callback-page.ts'
import type { TrackerConnection } from '../tracker/tracker-connection.ts'
import type { HostApi } from './host-api.ts'
import { toApiRefusal } from './pull-requests.ts'

export interface AccountApiPorts {
  readonly accountManager: AccountManager
  readonly trackerConnection: TrackerConnection
  readonly mayChange: () => Result<void>
}

type AccountApi = Pick<
  HostApi,
  | 'changeCredentials'
  | 'connect'
  | 'pollCodehost'
  | 'trackerCallback'
  | 'pasteTrackerAddress'
  | 'storage'
  | 'connectStorage'
  | 'trackerProjects'
>

export function createAccountApi({
  accountManager: connect,
  trackerConnection,
  mayChange,
}: AccountApiPorts): AccountApi {
  /** Asked first, whatever else is wrong. */
  const whileOpen = async <T>(ask: () => Promise<Result<T>>): Promise<Result<T>> => {
    const may = mayChange()
    return may.ok ? ask() : may
  }
  return {
    changeCredentials: (request) => whileOpen(() => connect.changeCredentials(request)),
    connect: (provider) => whileOpen(() => connect.connect(provider)),
    async pollCodehost() {
      const may = mayChange()
      return may.ok ? connect.pollCodehost() : { status: 'pending' }
    },
    async trackerCallback(query) {
      const page = await connect.handleTrackerCallback(query)
      return { status: page.status, html: renderPage(page) }
    },
    pasteTrackerAddress: (address) => whileOpen(() => connect.handlePastedCallback(address)),
    storage: () => connect.storageStatus(),
    connectStorage: () => whileOpen(async () => yes(await connect.connectStorage())),
    async trackerProjects() {
      if (!trackerConnection.isConnected) return no('invalid', 'no tracker is connected; connect one first')
      return toApiRefusal(await trackerConnection.ask((tracker) => tracker.projects()))
    },
  }
}
