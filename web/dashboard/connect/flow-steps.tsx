/** The next step of a person while an account is being connected. */

import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { ConnectPollResponse, ConnectResponse } from '../../../protocol/connect.ts'
import { messageOf } from '../../../protocol/message-of.ts'
import { Button } from '../../elements/button.tsx'
import { bound, TextField } from '../../elements/field.tsx'
import { submitBy } from '../../elements/form.ts'
import { Glyph, Icon } from '../../elements/glyph.tsx'
import { now } from '../../elements/moments.tsx'
import { showError, showOutcome } from '../../elements/toasts.ts'
import { formatDuration } from '../../text/times.ts'
import { host } from '../state/host.ts'
import { config } from '../state/records.ts'
import type { Account } from './accounts.ts'

const STORAGE_POLL_MS = 2_000

export interface FlowStepsProps {
  readonly step: FlowStep
  /** Undefined ends the flow. */
  readonly go: (step: FlowStep | undefined) => void
}

export function FlowSteps({ step, go }: FlowStepsProps) {
  switch (step.is) {
    case 'device':
      return <DeviceStep step={step} go={go} />
    case 'redirect':
      return <RedirectStep page={step.page} go={go} />
    case 'elsewhere':
      return <ElsewhereStep detail={step.detail} go={go} />
    case 'failed':
      return (
        <p class="problem" role="alert">
          <Glyph name="failed" /> {step.reason}
        </p>
      )
    case 'connected':
      return (
        <p class="connect-done" role="status">
          <Glyph name="completed" /> Connected: {step.detail}
        </p>
      )
    case 'key':
      return step.reason === undefined ? null : <p class="connect-reason">{step.reason}</p>
  }
}

const StopWaiting = ({ go }: Pick<FlowStepsProps, 'go'>) => (
  <Button kind="link" act={() => go(undefined)}>
    Stop waiting
  </Button>
)

interface DeviceStepProps {
  readonly step: Extract<FlowStep, { is: 'device' }>
  readonly go: FlowStepsProps['go']
}

function DeviceStep({ step, go }: DeviceStepProps) {
  const { code, page, intervalMs, endsAt } = step
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>
    const poll = async () => {
      if (Date.now() > endsAt) {
        go({ is: 'failed', reason: 'Nobody entered the code in time. Connect again for a new one.' })
        return
      }
      // The host may be away for a moment; the code stays valid.
      const next = await pollCode().catch(() => undefined)
      if (next === undefined) timer = setTimeout(() => void poll(), intervalMs)
      else go(next)
    }
    timer = setTimeout(() => void poll(), intervalMs)
    return () => clearTimeout(timer)
  }, [code])
  const copy = async () => {
    await navigator.clipboard.writeText(code)
    showOutcome('The code is copied.')
  }
  return (
    <div class="connect-step">
      <p>
        Enter this code at{' '}
        <a href={page} target="_blank" rel="noopener noreferrer">
          {page} <Icon name="external" />
        </a>
      </p>
      <p class="connect-code">
        <strong class="mono">{code}</strong>
        <Button small act={() => copy().catch(showError)}>
          Copy code
        </Button>
      </p>
      <p class="quiet">
        <Glyph name="limit" /> Waiting for you, {formatDuration(endsAt - now.value)} left.{' '}
        <StopWaiting go={go} />
      </p>
    </div>
  )
}

interface RedirectStepProps {
  readonly page: string
  readonly go: FlowStepsProps['go']
}

function RedirectStep({ page, go }: RedirectStepProps) {
  const pasted = useSignal('')
  const problem = useSignal<string | undefined>(undefined)
  const send = async () => {
    try {
      problem.value = undefined
      const next = await pasteAddress(pasted.value)
      pasted.value = ''
      if (next !== undefined) go(next)
    } catch (error) {
      const message = messageOf(error)
      problem.value = `The address ${message.replace(/^\/address: /, '')}`
    }
  }
  return (
    <div class="connect-step">
      <p>
        <a class="button primary" href={page} target="_blank" rel="noopener">
          Open the consent page <Icon name="external" />
        </a>
      </p>
      <p class="quiet">
        <Glyph name="limit" /> Waiting for your consent: the browser comes back to the host.{' '}
        <StopWaiting go={go} />
      </p>
      <details>
        <summary>The browser shows an address that it cannot open</summary>
        <p class="quiet">
          The host is on another machine. Paste the whole address, which begins with http://localhost.
        </p>
        <form class="connect-key" autocomplete="off" onSubmit={submitBy(send)}>
          <TextField label="Address" type="password" problem={problem.value} {...bound(pasted)} />
          <Button
            act={send}
            busyWord="Connecting"
            unavailable={pasted.value === '' ? 'The address is missing.' : undefined}
          >
            Connect
          </Button>
        </form>
      </details>
    </div>
  )
}

function ElsewhereStep({ detail, go }: { readonly detail: string; readonly go: FlowStepsProps['go'] }) {
  useEffect(() => {
    const timer = setInterval(() => {
      host.readStorage().then(
        ({ loggedIn, account }) => {
          if (loggedIn) go({ is: 'connected', detail: account ?? 'wrangler is logged in' })
        },
        // The next question may be answered.
        () => {},
      )
    }, STORAGE_POLL_MS)
    return () => clearInterval(timer)
  }, [])
  return (
    <div class="connect-step">
      <p>{detail}</p>
      <p class="quiet">
        <Glyph name="limit" /> Waiting for the login on the host’s machine. <StopWaiting go={go} />
      </p>
    </div>
  )
}

// ---- the flow ------------------------------------------------------------------------------------------------------

export type FlowStep =
  | {
      readonly is: 'device'
      readonly code: string
      readonly page: string
      readonly intervalMs: number
      readonly endsAt: number
    }
  | { readonly is: 'redirect'; readonly page: string }
  /** The login goes on in a browser of the host's machine. */
  | { readonly is: 'elsewhere'; readonly detail: string }
  | { readonly is: 'key'; readonly reason: string | undefined }
  | { readonly is: 'failed'; readonly reason: string }
  | { readonly is: 'connected'; readonly detail: string }

const SECOND = 1_000

/**
 * Connecting an account, step by step: the request, and what the person does next.
 *
 * A flow ends with its account connected, a reason to give a key by hand, or a failure. Credentials are sent once and
 * kept nowhere.
 */
export async function beginConnecting(provider: Account['provider']): Promise<FlowStep> {
  if (provider !== 'storage') return stepOf(await host.connectProvider({ provider }))
  const answer = await host.connectStorage()
  if (answer.status === 'unavailable') return { is: 'failed', reason: answer.reason }
  if (answer.status === 'login-started') return { is: 'elsewhere', detail: answer.detail }
  return { is: 'connected', detail: answer.r2.account ?? 'wrangler is logged in' }
}

function stepOf(answer: ConnectResponse): FlowStep {
  switch (answer.status) {
    case 'connected':
      config.value = answer.config
      return { is: 'connected', detail: answer.detail }
    case 'device':
      return {
        is: 'device',
        code: answer.userCode,
        page: answer.verificationUri,
        intervalMs: answer.interval * SECOND,
        endsAt: Date.now() + answer.expiresIn * SECOND,
      }
    case 'redirect':
      return { is: 'redirect', page: answer.url }
    case 'manual':
      return { is: 'key', reason: answer.reason }
  }
}

/** Undefined while nobody has confirmed the code. */
const pollCode = async (): Promise<FlowStep | undefined> => stepAfter(await host.pollCodehost())

/** For a browser that could not open the address to which the tracker sent it back. */
const pasteAddress = async (pasted: string): Promise<FlowStep | undefined> =>
  stepAfter(await host.pasteTrackerAddress({ body: { address: pasted } }))

function stepAfter(answer: ConnectPollResponse): FlowStep | undefined {
  if (answer.status === 'pending') return undefined
  if (answer.status === 'error') return { is: 'failed', reason: answer.detail }
  config.value = answer.config
  return { is: 'connected', detail: answer.detail }
}

/** Sends a key by hand; an empty one disconnects. Throws the provider's reason for refusing it. */
export async function sendKey(field: NonNullable<Account['keyField']>, key: string): Promise<string> {
  const answer = await host.changeCredentials({ body: { [field]: key } })
  config.value = answer.config
  const [result] = Object.values(answer.results)
  if (result?.ok === false) throw new Error(result.detail)
  return result?.detail ?? ''
}
