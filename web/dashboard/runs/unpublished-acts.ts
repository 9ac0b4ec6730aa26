/** The acts of a run whose finished work is not published. */
import { foundKeyText } from '../../../protocol/found-key-text.ts'
import type { Run } from '../../../protocol/run.ts'
import { askBefore } from '../../elements/dialog.tsx'
import { showOutcome } from '../../elements/toasts.ts'
import { host } from '../state/host.ts'
import { usualAgent } from './agent-fields.tsx'
import { askRunOptions } from './run-options.tsx'

/** Without words for its agent, a retry publishes the work that is done. */
export async function publishNow({ id, ticket }: Run): Promise<void> {
  await host.retryRun({ id })
  showOutcome(`The work of ${ticket.identifier} is published as soon as its worker is free.`)
}

export async function publishAnyway({ id, ticket, foundKeys = [] }: Run): Promise<void> {
  const isAgreed = await askBefore({
    title: `Publish the work of ${ticket.identifier} anyway?`,
    loses: `Everybody who may read the repository reads it then: ${foundKeys.map(foundKeyText).join(', ')}.`,
    keep: 'Keep it unpublished',
    act: 'Publish anyway',
  })
  if (!isAgreed) return
  await host.publishRun({ id, body: { anyway: true } })
  showOutcome(`The work of ${ticket.identifier} is published as soon as its worker is free.`)
}

export const askAgain = ({ id, ticket, agent }: Run): Promise<void> =>
  askRunOptions({
    title: `Ask the agent of ${ticket.identifier} again`,
    lead: 'Its work is done, and only not published. The agent works again, and is paid again.',
    usual: usualAgent(ticket.repo, agent),
    act: 'Ask the agent',
    busyWord: 'Asking',
    hint: 'What the agent shall do. Without words, the work is only published.',
    needsInstructions: true,
    send: async (body) => {
      await host.retryRun({ id, body })
    },
  })
