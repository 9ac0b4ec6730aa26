/**
 * The dialog before a run, a retry or a follow-up: words for the agent, and another agent where a person chooses one.
 */
import { useSignal } from '@preact/signals'
import type { RunOptions, Ticket } from '../../../protocol/run.ts'
import { showDialog } from '../../elements/dialog.tsx'
import { bound, TextField } from '../../elements/field.tsx'
import { FormDialog } from '../../elements/form-dialog.tsx'
import { showOutcome } from '../../elements/toasts.ts'
import { runAddress } from '../addresses.ts'
import { host } from '../state/host.ts'
import { AgentFields, choiceOf, useAgentSelection, usualAgent } from './agent-fields.tsx'

export interface RunQuestion {
  /** `Start a run of ENG-12` */
  readonly title: string
  readonly lead: string
  /** The agent that works when nobody chooses one. */
  readonly usual: string
  readonly act: string
  readonly busyWord: string
  readonly hint: string
  readonly needsInstructions?: boolean
  /** A rejection keeps the dialog open. */
  readonly send: (options: RunOptions) => Promise<void>
}

export function askRunOptions(question: RunQuestion): Promise<void> {
  return showDialog((close) => <RunOptionsForm question={question} close={close} />)
}

function RunOptionsForm({ question, close }: { readonly question: RunQuestion; readonly close: () => void }) {
  const instructions = useSignal('')
  const selection = useAgentSelection()

  const isIncomplete = question.needsInstructions === true && instructions.value.trim() === ''

  async function send(): Promise<void> {
    const body: RunOptions = {
      ...(instructions.value.trim() === '' ? {} : { instructions: instructions.value }),
      ...choiceOf(selection),
    }
    await question.send(body)
  }

  return (
    <FormDialog
      title={question.title}
      act={question.act}
      busyWord={question.busyWord}
      unavailable={isIncomplete ? 'Say what the agent shall do.' : undefined}
      send={send}
      close={close}
    >
      <p class="quiet dialog-lead">{question.lead}</p>
      <TextField label="Instructions" hint={question.hint} lines={4} {...bound(instructions)} autoFocus />
      <AgentFields selection={selection} usual={question.usual} />
    </FormDialog>
  )
}

/** Starts a run of a ticket, with instructions and another agent where a person gives them. */
export const askForRun = (ticket: Ticket): Promise<void> =>
  askRunOptions({
    title: `Start a run of ${ticket.identifier}`,
    lead: ticket.title,
    usual: usualAgent(ticket.repo),
    act: 'Start run',
    busyWord: 'Starting',
    hint: 'Words for the agent besides the ticket.',
    send: async (body) => {
      const run = await host.runTicket({ id: ticket.id, body })
      showOutcome(`${ticket.identifier} is queued.`, { to: runAddress(run.id), text: 'Show the run' })
    },
  })
