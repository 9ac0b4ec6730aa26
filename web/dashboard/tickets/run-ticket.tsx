/** The dialog that starts a run of a ticket, with instructions and another agent where a person gives them. */
import { useSignal } from '@preact/signals'
import { AGENTS } from '../../../protocol/agents/registry.ts'
import type { RunOptions, Ticket } from '../../../protocol/run.ts'
import { showDialog } from '../../elements/dialog.tsx'
import { SelectField, TextField } from '../../elements/field.tsx'
import { FormDialog } from '../../elements/form-dialog.tsx'
import { showOutcome } from '../../elements/toast.tsx'
import { runAddress } from '../addresses.ts'
import { host } from '../state/host.ts'
import { config } from '../state/records.ts'

export function askForRun(ticket: Ticket): Promise<void> {
  return showDialog((close) => <RunTicket ticket={ticket} close={close} />)
}

interface RunTicketProps {
  readonly ticket: Ticket
  readonly close: () => void
}

const EFFORTS = ['low', 'medium', 'high'] as const

function RunTicket({ ticket, close }: RunTicketProps) {
  const instructions = useSignal('')
  const provider = useSignal('')
  const model = useSignal('')
  const effort = useSignal('')
  const agent = config.value?.agent

  async function send(): Promise<void> {
    const name = providerOf(provider.value)
    const level = effortOf(effort.value)
    const body: RunOptions = {
      ...(instructions.value.trim() === '' ? {} : { instructions: instructions.value }),
      ...(name === undefined ? {} : { provider: name }),
      ...(model.value.trim() === '' ? {} : { model: model.value.trim() }),
      ...(level === undefined ? {} : { effort: level }),
    }
    const run = await host.runTicket({ id: ticket.id, body })
    showOutcome(`${ticket.identifier} is queued.`, { to: runAddress(run.id), text: 'Show the run' })
  }

  return (
    <FormDialog
      title={`Start a run of ${ticket.identifier}`}
      act="Start run"
      busyWord="Starting"
      send={send}
      close={close}
    >
      <p class="quiet dialog-lead">{ticket.title}</p>
      <TextField
        label="Instructions"
        hint="What the agent is told besides the ticket."
        lines={4}
        value={instructions.value}
        change={(text) => {
          instructions.value = text
        }}
        autoFocus
      />
      <div class="field-row">
        <SelectField
          label="Agent"
          value={provider.value}
          change={(value) => {
            provider.value = value
          }}
          options={[
            ['', `${AGENTS[agent?.provider ?? 'agentA'].productName}, or the repository’s`],
            ...Object.values(AGENTS).map((each) => [each.provider, each.productName] as const),
          ]}
        />
        <SelectField
          label="Effort"
          value={effort.value}
          change={(value) => {
            effort.value = value
          }}
          options={[
            ['', `As configured (${agent?.orchestratorEffort ?? 'medium'})`],
            ...EFFORTS.map((each) => [each, each] as const),
          ]}
        />
      </div>
      <TextField
        label="Model"
        hint="Empty: the configured one, or the agent’s own."
        value={model.value}
        placeholder={agent?.orchestratorModel ?? ''}
        change={(text) => {
          model.value = text
        }}
      />
    </FormDialog>
  )
}

const providerOf = (value: string) =>
  Object.values(AGENTS).find(({ provider }) => provider === value)?.provider
const effortOf = (value: string) => EFFORTS.find((effort) => effort === value)
