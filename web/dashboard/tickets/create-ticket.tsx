/** The dialog that creates a ticket where tickets live, and starts its run when asked. */
import { useSignal } from '@preact/signals'
import { messageOf } from '../../../protocol/message-of.ts'
import type { NewTicketRequest } from '../../../protocol/new-ticket.ts'
import type { Run, RunAgentChoice, Ticket } from '../../../protocol/run.ts'
import { showDialog } from '../../elements/dialog.tsx'
import { bound, CheckField, SelectField, TextField } from '../../elements/field.tsx'
import { FormDialog } from '../../elements/form-dialog.tsx'
import { showError, showOutcome } from '../../elements/toasts.ts'
import { runAddress, ticketAddress } from '../addresses.ts'
import { AgentFields, choiceOf, useAgentSelection, usualAgent } from '../runs/agent-fields.tsx'
import { host } from '../state/host.ts'
import { config } from '../state/records.ts'
import { PRIORITY_NAMES } from '../tracker-words.ts'

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
      ...labelsOf(labels.value),
    }
    const { ticket, run: queued } = await host.createTicket({ body })
    showCreated(ticket, hasChoice ? await runWith(ticket, choice) : queued)
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
      <TextField label="Title" {...bound(title)} autoFocus />
      <TextField label="Description" hint="Markdown. The agent reads it." lines={6} {...bound(description)} />
      <div class="field-row">
        <SelectField
          label="Repository"
          {...bound(repo)}
          options={[
            ['', 'By its project and labels'],
            ...Object.entries(config.value?.repos ?? {}).map(
              ([key, { remote }]) => [key, `${key} (${remote})`] as const,
            ),
          ]}
        />
        <SelectField
          label="Priority"
          {...bound(priority)}
          options={PRIORITY_NAMES.map((name, at) => [String(at), name] as const)}
        />
      </div>
      <TextField label="Labels" hint="With commas between them." {...bound(labels)} />
      {isStarted.value && (
        <AgentFields
          selection={selection}
          usual={repo.value === '' ? `${usualAgent(undefined)}, or the repository’s` : usualAgent(repo.value)}
        />
      )}
      <CheckField
        label="Start a run now"
        hint="It is put into the first eligible state. Otherwise it waits where no run begins by itself."
        {...bound(isStarted)}
      />
    </FormDialog>
  )
}

function labelsOf(text: string): Pick<NewTicketRequest, 'labels'> {
  const labels = text
    .split(',')
    .map((label) => label.trim())
    .filter(Boolean)
  return labels.length === 0 ? {} : { labels }
}

function showCreated({ id, identifier, state }: Ticket, run: Run | undefined): void {
  if (run === undefined)
    showOutcome(`${identifier} is created in ${state}.`, { to: ticketAddress(id), text: 'Show the ticket' })
  else showOutcome(`${identifier} is created and queued.`, { to: runAddress(run.id), text: 'Show the run' })
}

/** The ticket is there already, so a refusal closes the dialog: sent again it would create another one. */
async function runWith({ id, identifier }: Ticket, choice: RunAgentChoice): Promise<Run | undefined> {
  try {
    return await host.runTicket({ id, body: choice })
  } catch (error) {
    const reason = messageOf(error)
    showError(`${identifier} is created, and its run was refused: ${reason}`)
    return undefined
  }
}
