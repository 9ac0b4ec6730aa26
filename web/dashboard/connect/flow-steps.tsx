/** The next step of a person while an account is being connected. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { Button } from '../../elements/button.tsx'
import { TextField } from '../../elements/field.tsx'
import { Glyph } from '../../elements/glyph.tsx'
import { Icon } from '../../elements/icon.tsx'
import { now } from '../../elements/moments.tsx'
import { showError, showOutcome } from '../../elements/toasts.ts'
import { formatDuration } from '../../text/times.ts'
import { host } from '../state/host.ts'
import { type FlowStep, pasteAddress, pollCode } from './connect-flow.ts'

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
      const message = error instanceof Error ? error.message : String(error)
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
        <form
          class="connect-key"
          autocomplete="off"
          onSubmit={(event) => {
            event.preventDefault()
            void send()
          }}
        >
          <TextField
            label="Address"
            type="password"
            value={pasted.value}
            problem={problem.value}
            change={(text) => {
              pasted.value = text
            }}
          />
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
