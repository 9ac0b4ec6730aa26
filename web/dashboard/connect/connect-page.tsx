/** The accounts that the host works with: connected, mended and disconnected here. No credential is ever shown. */

import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { hasEnded } from '../../../client/run-events.ts'
import type { Run } from '../../../protocol/run.ts'
import { type AgentSettings, agentOf } from '../../../protocol/run-agent.ts'
import { Button } from '../../elements/button.tsx'
import { askBefore } from '../../elements/dialog.tsx'
import { bound, TextField } from '../../elements/field.tsx'
import { submitBy } from '../../elements/form.ts'
import { Glyph, type StateGlyph } from '../../elements/glyph.tsx'
import { PageHead } from '../../elements/page-head.tsx'
import { Failure, Skeleton } from '../../elements/placeholder.tsx'
import { showError, showOutcome } from '../../elements/toasts.ts'
import { address } from '../../router.ts'
import { countOf } from '../../text/amounts.ts'
import { totals } from '../state/current-totals.ts'
import { host } from '../state/host.ts'
import { arePullsRead, attention, config, runs, tracker, workers } from '../state/records.ts'
import { useRequest } from '../state/use-request.ts'
import { type Account, type AccountState, accountsOf } from './accounts.ts'
import { beginConnecting, type FlowStep, FlowSteps, sendKey } from './flow-steps.tsx'

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
      return `${countOf(tracker.value.eligible ?? 0, 'eligible ticket')} can no longer become a run. ${goOn(unfinished.length)} without moving their tickets.`
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

// ---- one account ---------------------------------------------------------------------------------------------------

const STATES: Readonly<Record<AccountState, readonly [StateGlyph, word: string]>> = {
  connected: ['completed', 'Connected'],
  missing: ['queued', 'Not connected'],
  refused: ['needs-you', 'Needs you'],
  waiting: ['limit', 'Being renewed'],
  folder: ['completed', 'A folder on the host, no account'],
}

interface AccountCardProps {
  readonly account: Account
  /** The loss without the account, in numbers. */
  readonly loses: string
  /** The state outside of the configuration may have changed. */
  readonly changed: () => void
}

/** An account: its state, what is wrong with it, and how it is connected or disconnected. */
function AccountCard({ account, loses, changed }: AccountCardProps) {
  const { provider, title, state, detail, purpose, means, loginCommand, problems } = account
  const step = useSignal<FlowStep | undefined>(undefined)
  const card = useRef<HTMLElement>(null)
  const isLinked = address.value.fragment === provider
  useEffect(() => {
    if (isLinked) card.current?.scrollIntoView({ block: 'center' })
  }, [isLinked])
  // The browser came back to the host, which tells every page.
  useEffect(() => {
    if (state === 'connected' && step.value?.is === 'redirect') step.value = { is: 'connected', detail }
  }, [state])
  const go = (next: FlowStep | undefined) => {
    step.value = next
    if (next?.is === 'connected') changed()
  }
  const connect = async () => {
    step.value = undefined
    await beginConnecting(provider).then(go, (error: Error) => go({ is: 'failed', reason: error.message }))
  }
  const [glyph, word] = STATES[state]
  const isKeyShown = step.value?.is === 'key' || step.value?.is === 'failed'
  return (
    <section ref={card} id={provider} class={`card account${isLinked ? ' linked' : ''}`} aria-label={title}>
      <div class="account-head">
        <h2>{title}</h2>
        <span class={`account-state ${state}`}>
          <Glyph name={glyph} /> {word}
        </span>
        {detail !== '' && <span class="quiet account-detail">{detail}</span>}
      </div>
      <p class="quiet">{purpose}</p>
      {state === 'folder' && (
        <p>
          <a href={`/settings#${provider}`}>Change where it is</a>
        </p>
      )}
      {(step.value === undefined ? problems : []).map((problem) => (
        <p key={problem} class="account-problem">
          <Glyph name="needs-you" /> {problem} {cureOf(provider, problem)}
        </p>
      ))}
      {step.value === undefined && state !== 'connected' && means !== '' && (
        <p class="quiet">
          {means}{' '}
          {loginCommand !== undefined && (
            <>
              To log in there: <code>{loginCommand}</code>
            </>
          )}
        </p>
      )}
      {step.value !== undefined && <FlowSteps step={step.value} go={go} />}
      {isKeyShown && account.keyField !== undefined && (
        <KeyForm account={account} field={account.keyField} go={go} />
      )}
      {state !== 'folder' && (
        <AccountActs
          account={account}
          loses={loses}
          connect={connect}
          step={step.value}
          go={go}
          changed={changed}
        />
      )}
    </section>
  )
}

/** Two of the accounts are called by what they are. */
const nounOf = ({ provider, title }: Account): string =>
  provider === 'tracker' || provider === 'codehost' ? `the ${title.toLowerCase()}` : title

/** Settings that a problem names are changed on their own page. */
function cureOf(provider: string, problem: string) {
  const key = /\b(storage\.(?:bucket|publicBaseUrl)|agent\.keyInSandbox)\b/.exec(problem)?.[1]
  return key === undefined ? null : (
    <a class="cure" href={`/settings#${key}`}>
      {provider === 'storage' ? 'Set it' : 'Change it'}
    </a>
  )
}

interface AccountActsProps extends AccountCardProps {
  readonly connect: () => Promise<void>
  readonly step: FlowStep | undefined
  readonly go: (step: FlowStep | undefined) => void
}

function AccountActs({ account, loses, connect, step, go, changed }: AccountActsProps) {
  const { provider, title, state, keyField, kept } = account
  const isThere = state !== 'missing'
  const disconnect = async () => {
    if (keyField === undefined) return
    const isAgreed = await askBefore({
      title: `Disconnect ${nounOf(account)}?`,
      loses: `The host forgets its credential. ${loses}`,
      keep: 'Stay connected',
      act: `Disconnect ${nounOf(account).replace('the ', '')}`,
    })
    if (!isAgreed) return
    await sendKey(keyField, '').then(() => {
      changed()
      go(undefined)
      showOutcome(`${title} is disconnected.`)
    }, showError)
  }
  return (
    <div class="account-acts">
      <Button
        small
        label={`${isThere ? 'Connect again' : 'Connect'}: ${title}`}
        act={connect}
        busyWord="Connecting"
      >
        {isThere ? 'Connect again' : 'Connect'}
      </Button>
      {keyField !== undefined && step?.is !== 'key' && (
        <Button
          small
          label={`Give a ${provider === 'codehost' ? 'token' : 'key'} to ${title}`}
          act={() => go({ is: 'key', reason: undefined })}
        >
          Give a {provider === 'codehost' ? 'token' : 'key'}
        </Button>
      )}
      {isThere && (
        <Button
          small
          kind="destructive"
          label={`Disconnect… ${title}`}
          unavailable={keyField === undefined || kept !== undefined ? kept : undefined}
          act={disconnect}
        >
          Disconnect…
        </Button>
      )}
    </div>
  )
}

interface KeyFormProps {
  readonly account: Account
  readonly field: NonNullable<Account['keyField']>
  readonly go: (step: FlowStep) => void
}

function KeyForm({ account: { title, provider }, field, go }: KeyFormProps) {
  const key = useSignal('')
  const problem = useSignal<string | undefined>(undefined)
  const send = async () => {
    const given = key.value.trim()
    if (given === '') return
    problem.value = undefined
    // A sent credential stays nowhere in the page.
    key.value = ''
    await sendKey(field, given).then(
      (detail) => go({ is: 'connected', detail }),
      (error: Error) => {
        problem.value = error.message
      },
    )
  }
  return (
    <form class="connect-key" autocomplete="off" onSubmit={submitBy(send)}>
      <TextField
        label={`${provider === 'codehost' ? 'Token' : 'Key'} of ${title}`}
        hint="The host checks it and keeps it only if it works. Nobody can read it here afterwards."
        type="password"
        problem={problem.value}
        {...bound(key)}
        autoFocus
      />
      <Button
        kind="primary"
        act={send}
        busyWord="Checking"
        unavailable={key.value.trim() === '' ? 'The field is empty.' : undefined}
      >
        Check and keep
      </Button>
    </form>
  )
}
