/** The machines that are being set up over SSH, step by step, whoever began it. */
import { useEffect } from 'preact/hooks'
import type { ProvisionPush } from '../../../protocol/provision.ts'
import { Button } from '../../elements/button.tsx'
import { Glyph, type StateGlyph } from '../../elements/glyph.tsx'
import { Section } from '../../elements/page-head.tsx'
import { formatDuration } from '../../text/times.ts'
import { watchFrames } from '../state/live.ts'
import { forgetProvisioning, receiveStep, setUpMachines } from './provision-machine.tsx'
import { type ProvisioningState, provisioningState, type SetUpMachine } from './provision-state.ts'

export function ProvisionedMachines() {
  useEffect(
    () =>
      watchFrames((frame) => {
        if (frame.type === 'provision') receiveStep(frame)
      }),
    [],
  )
  const machines = [...setUpMachines.value.values()]
  if (machines.length === 0) return null
  return (
    <Section id="machines" title="Machines being set up">
      {machines.map((machine) => (
        <Machine key={machine.id} machine={machine} />
      ))}
    </Section>
  )
}

const TENTHS_MS_MAX = 10_000

const WORDS: Readonly<Record<ProvisioningState, string>> = {
  running: 'Being set up. It goes on when this page is closed.',
  done: 'Online',
  failed: 'Failed',
}

function Machine({ machine }: { readonly machine: SetUpMachine }) {
  const { id, steps, outcome, count } = machine
  const state = provisioningState(machine)
  const hasFailedStep = steps.some(({ status }) => status === 'failed')
  return (
    <article class="card machine" aria-label={id}>
      <header class="worker-head">
        <Glyph name={GLYPHS[state]} />
        <h3 class="mono ellipsis">{id}</h3>
        <span class="quiet" role="status">
          {WORDS[state]}
        </span>
        {state !== 'running' && (
          <span class="worker-acts">
            <Button small label={`Hide ${id}`} act={() => forgetProvisioning(id)}>
              Hide
            </Button>
          </span>
        )}
      </header>
      {steps.length > 0 && (
        <ol class="leases">
          {steps.map((step) => (
            <Step key={step.number} step={step} count={count} />
          ))}
        </ol>
      )}
      {outcome?.isDone === false && !hasFailedStep && <p class="worker-sentence">{outcome.message}</p>}
    </article>
  )
}

const GLYPHS: Readonly<Record<ProvisioningState, StateGlyph>> = {
  running: 'running',
  done: 'completed',
  failed: 'failed',
}

/** Most steps take less than a few seconds. */
const stepTime = (ms: number): string =>
  ms < TENTHS_MS_MAX ? `${(ms / 1_000).toFixed(1)} s` : formatDuration(ms)

const Step = ({ step, count }: { readonly step: ProvisionPush; readonly count: number }) => (
  <li class="lease machine-step">
    <Glyph name={GLYPHS[step.status]} alone label={step.status} />
    <span>
      <span class="faint">
        {step.number}/{count}
      </span>{' '}
      {step.step}
    </span>
    <span class={step.status === 'failed' ? 'problem' : 'quiet'}>{step.message}</span>
    <span class="number quiet">{step.status === 'running' ? '' : stepTime(step.ms)}</span>
  </li>
)
