/** The dialog that creates a ticket where tickets live, and starts its run when asked. */
import { useSignal } from '@preact/signals'
import type { NewTicketRequest } from '../../../protocol/new-ticket.ts'
import type { Run, RunAgentChoice, Ticket } from '../../../protocol/run.ts'
import { showDialog } from '../../elements/dialog.tsx'
import { CheckField, SelectField, TextField } from '../../elements/field.tsx'
import { FormDialog } from '../../elements/form-dialog.tsx'
import { showError, showOutcome } from '../../elements/toasts.ts'
import { runAddress, ticketAddress } from '../addresses.ts'
import { AgentFields, choiceOf, useAgentSelection, usualAgent } from '../runs/agent-fields.tsx'
import { host } from '../state/host.ts'
import { config } from '../state/records.ts'
import { PRIORITY_NAMES } from './priority-names.ts'

/** @param isStarting whether a run is begun unless the person says otherwise */
export function askForTicket(isStarting = false): Promise<void> {
  return showDialog((close) => <CreateTicket isStarting={isStarting} close={close} />)
}

interface CreateTicketProps {
  readonly isStarting: boolean
  readonly close: () => void
}

function CreateTicket({ isStarting, close }: CreateTicketProps) {
  const title = useSignal('')
  const description = useSignal('')
  const repo = useSignal('')
  const priority = useSignal('0')
  const labels = useSignal('')
  const isStarted = useSignal(isStarting)
  const selection = useAgentSelection()

  async function send(): Promise<void> {
    const named = labels.value
      .split(',')
      .map((label) => label.trim())
      .filter(Boolean)
    const choice = isStarted.value ? choiceOf(selection) : {}
    const hasChoice = Object.keys(choice).length > 0
    const body: NewTicketRequest = {
      title: title.value.trim(),
      // A run that has begun keeps its agent, so the ticket waits until the run is asked for with the choice.
      start: isStarted.value && !hasChoice,
      ...(description.value.trim() === '' ? {} : { description: description.value }),
      ...(repo.value === '' ? {} : { repo: repo.value }),
      // The list of choices has these numbers only.
      ...(priority.value === '0' ? {} : { priority: Number(priority.value) as 1 | 2 | 3 | 4 }),
      ...(named.length === 0 ? {} : { labels: named }),
    }
    const { ticket, run: queued } = await host.createTicket({ body })
    const run = hasChoice ? await runWith(ticket, choice) : queued
    if (run === undefined)
      showOutcome(`${ticket.identifier} is created in ${ticket.state}.`, {
        to: ticketAddress(ticket.id),
        text: 'Show the ticket',
      })
    else
      showOutcome(`${ticket.identifier} is created and queued.`, {
        to: runAddress(run.id),
        text: 'Show the run',
      })
  }

  return (
    <FormDialog
      title={isStarting ? 'Start a run from words' : 'Create a ticket'}
      act={isStarted.value ? 'Create and start' : 'Create ticket'}
      busyWord="Creating"
      unavailable={title.value.trim() === '' ? 'A ticket needs a title.' : undefined}
      send={send}
      close={close}
    >
      <TextField
        label="Title"
        value={title.value}
        change={(text) => {
          title.value = text
        }}
        autoFocus
      />
      <TextField
        label="Description"
        hint="Markdown. The agent reads it."
        lines={6}
        value={description.value}
        change={(text) => {
          description.value = text
        }}
      />
      <div class="field-row">
        <SelectField
          label="Repository"
          value={repo.value}
          change={(value) => {
            repo.value = value
          }}
          options={[
            ['', 'By its project and labels'],
            ...Object.entries(config.value?.repos ?? {}).map(
              ([key, { remote }]) => [key, `${key} (${remote})`] as const,
            ),
          ]}
        />
        <SelectField
          label="Priority"
          value={priority.value}
          change={(value) => {
            priority.value = value
          }}
          options={PRIORITY_NAMES.map((name, at) => [String(at), name] as const)}
        />
      </div>
      <TextField
        label="Labels"
        hint="With commas between them."
        value={labels.value}
        change={(text) => {
          labels.value = text
        }}
      />
      {isStarted.value && (
        <AgentFields
          selection={selection}
          usual={repo.value === '' ? `${usualAgent(undefined)}, or the repository’s` : usualAgent(repo.value)}
        />
      )}
      <CheckField
        label="Start a run now"
        hint="It is put into the first eligible state. Otherwise it waits where no run begins by itself."
        isOn={isStarted.value}
        change={(isOn) => {
          isStarted.value = isOn
        }}
      />
    </FormDialog>
  )
}

/** The ticket is there already, so a refusal closes the dialog: sent again it would create another one. */
async function runWith({ id, identifier }: Ticket, choice: RunAgentChoice): Promise<Run | undefined> {
  try {
    return await host.runTicket({ id, body: choice })
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    showError(`${identifier} is created, and its run was refused: ${reason}`)
    return undefined
  }
}
