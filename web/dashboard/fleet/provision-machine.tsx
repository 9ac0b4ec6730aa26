/** The form for setting up a machine over SSH, and the request, which goes on when the form has closed. */
import { signal, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { PROVISION_ANSWER_MS_MAX } from '../../../protocol/limits.ts'
import { messageOf } from '../../../protocol/message-of.ts'
import type { ProvisionPush, ProvisionRequest } from '../../../protocol/provision.ts'
import { Button } from '../../elements/button.tsx'
import { showDialog } from '../../elements/dialog.tsx'
import { TextField } from '../../elements/field.tsx'
import { FormDialog } from '../../elements/form-dialog.tsx'
import { Glyph, type StateGlyph } from '../../elements/glyph.tsx'
import { Section } from '../../elements/page-head.tsx'
import { formatDuration } from '../../text/times.ts'
import { host } from '../state/host.ts'
import { watchFrames } from '../state/live.ts'
import {
  applyOutcome,
  applyStep,
  type ProvisioningState,
  parseTarget,
  provisioningState,
  type SetUpMachine,
  type SetUpMachines,
  targetId,
} from './provision-state.ts'

export const setUpMachines = signal<SetUpMachines>(new Map())

export const receiveStep = (push: ProvisionPush): void => {
  setUpMachines.value = applyStep(setUpMachines.value, push)
}

export const forgetProvisioning = (id: string): void => {
  const left = new Map(setUpMachines.value)
  left.delete(id)
  setUpMachines.value = left
}

export function askForMachine(): Promise<void> {
  return showDialog((close) => <MachineForm close={close} />, { wide: true })
}

/** Resolves when the host has accepted or refused the request, or has begun with it. */
function provision(body: ProvisionRequest): void {
  const id = targetId(body)
  forgetProvisioning(id)
  setUpMachines.value = new Map(setUpMachines.value).set(id, { id, steps: [], count: 0 })
  const end = (isDone: boolean, message: string) => {
    setUpMachines.value = applyOutcome(setUpMachines.value, id, { isDone, message })
  }
  host.provisionWorker({ body }, { timeoutMs: PROVISION_ANSWER_MS_MAX }).then(
    () => end(true, `${body.name ?? body.host} is online.`),
    (error: unknown) => end(false, messageOf(error)),
  )
  requestAnimationFrame(() => document.getElementById('machines')?.scrollIntoView({ block: 'nearest' }))
}

const FIELDS = {
  target: '',
  name: '',
  concurrency: '',
  identityFile: '',
  hostKeySha256: '',
}

function MachineForm({ close }: { readonly close: () => void }) {
  const fields = useSignal(FIELDS)
  const { target, name, concurrency, identityFile, hostKeySha256 } = fields.value
  const parsed = parseTarget(target)
  const isCount = /^\s*([1-9]\d*\s*)?$/.test(concurrency)
  const field = (key: keyof typeof FIELDS, label: string, hint: string, problem?: string) => (
    <TextField
      label={label}
      hint={hint}
      problem={problem}
      value={fields.value[key]}
      autoFocus={key === 'target'}
      change={(value) => {
        fields.value = { ...fields.value, [key]: value }
      }}
    />
  )
  const given = (key: 'name' | 'identityFile' | 'hostKeySha256', value: string) =>
    value.trim() === '' ? {} : { [key]: value.trim() }
  return (
    <FormDialog
      title="Set up a machine over SSH"
      act="Set up machine"
      busyWord="Beginning"
      unavailable={
        parsed === undefined
          ? 'Name the user and the machine, such as ann@forge.'
          : isCount
            ? undefined
            : 'The number of slots is not whole.'
      }
      send={async () => {
        if (parsed === undefined) return
        provision({
          ...parsed,
          ...given('name', name),
          ...(concurrency.trim() === '' ? {} : { concurrency: Number(concurrency) }),
          ...given('identityFile', identityFile),
          ...given('hostKeySha256', hostKeySha256),
        })
      }}
      close={close}
    >
      <p class="dialog-lead quiet">
        The host connects to a Linux machine, installs the worker there as a service of the user, and pairs
        it.
      </p>
      {field('target', 'Machine', 'user@machine, and a port where it is not 22: ann@forge:2222.')}
      <div class="field-row">
        {field('name', 'Name in the fleet', 'Empty: the name of the machine.')}
        {field('concurrency', 'Slots', 'Empty: 2.', isCount ? undefined : 'A whole number.')}
      </div>
      {field(
        'identityFile',
        'Private key file',
        'A path on the host’s machine. Empty: the SSH agent is asked.',
      )}
      {field(
        'hostKeySha256',
        'Fingerprint of the machine',
        'SHA256:…, where the host’s known_hosts does not name the machine.',
      )}
    </FormDialog>
  )
}

/** The machines that are being set up over SSH, step by step, whoever began it. */
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
