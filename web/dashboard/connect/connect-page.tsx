/** The accounts that the host works with: connected, mended and disconnected here. No credential is ever shown. */
import { hasEnded } from '../../../client/run-events.ts'
import type { Run } from '../../../protocol/run.ts'
import { type AgentSettings, agentOf } from '../../../protocol/run-agent.ts'
import { PageHead } from '../../elements/page-head.tsx'
import { Failure, Skeleton } from '../../elements/placeholder.tsx'
import { countOf } from '../../text/amounts.ts'
import { totals } from '../state/current-totals.ts'
import { host } from '../state/host.ts'
import { arePullsRead, attention, config, runs, tickets, tracker, workers } from '../state/records.ts'
import { useRequest } from '../state/use-request.ts'
import { AccountCard } from './account-card.tsx'
import { type Account, accountsOf } from './accounts.ts'

export function ConnectPage() {
  const storage = useRequest(`storage ${JSON.stringify(config.value?.storage)}`, (signal) =>
    host.readStorage({}, { signal }),
  )
  const current = config.value
  if (current === undefined || (storage.data === undefined && storage.error === undefined))
    return (
      <>
        <PageHead title="Connect" />
        <Skeleton rows={6} />
      </>
    )
  const accounts = accountsOf({
    config: current,
    tracker: tracker.value,
    storage: storage.data ?? UNKNOWN_STORAGE,
    attention: attention.value,
    workers: workers.value,
  }).filter(({ provider }) => provider !== 'storage' || storage.data !== undefined)
  const unfinished = [...runs.value.values()].filter((run) => !hasEnded(run))
  const connected = accounts.filter(({ state }) => state === 'connected' || state === 'folder').length
  return (
    <>
      <PageHead title="Connect" beside={`${connected} of ${accounts.length} connected`} />
      <div class="accounts">
        {accounts.map((account) => (
          <AccountCard
            key={account.provider}
            account={account}
            loses={lossOf(account, unfinished, current)}
            changed={storage.reload}
          />
        ))}
      </div>
      {storage.error !== undefined && <Failure error={storage.error} retry={storage.reload} />}
    </>
  )
}

const UNKNOWN_STORAGE = { installed: true, loggedIn: false, bucket: '', publicBaseUrl: '', ready: false }

/** The loss without the account. */
function lossOf({ provider, title }: Account, unfinished: readonly Run[], settings: AgentSettings): string {
  switch (provider) {
    case 'tracker':
      return `${countOf(tickets.value?.length ?? tracker.value.eligible ?? 0, 'eligible ticket')} can no longer become a run. ${goOn(unfinished.length)} without moving their tickets.`
    case 'codehost':
      return `${countOf(unfinished.length, 'unfinished run')} cannot push, and ${arePullsRead.value ? countOf(totals.value.openPulls, 'open pull request') : 'open pull requests'} cannot be read, reviewed or merged here.`
    case 'storage':
      return ''
    default: {
      const own = unfinished.filter((run) => agentOf(run, settings) === provider)
      const queued = own.filter(({ status }) => status === 'queued').length
      return `${countOf(queued, 'queued run')} of ${title} ${queued === 1 ? 'waits' : 'wait'} until it is connected again, and ${own.length - queued} in progress may fail.`
    }
  }
}

const goOn = (count: number): string =>
  `${countOf(count, 'unfinished run')} ${count === 1 ? 'goes' : 'go'} on`
