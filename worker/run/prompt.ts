/**
 * What an agent is told: the standing instructions, the ticket, what earlier runs learnt, and where to leave things.
 *
 * The order is on purpose: who gives orders comes first, and everything that strangers wrote stands below a heading
 * that says whose it is. Memories are shown as what they are, one line each, learnt by machines.
 */
import type { Job } from '../../protocol/frames.ts'
import { ARTIFACTS_INSIDE, MEMORIES_INSIDE } from './sandbox-paths.ts'

export function buildPrompt({ agent, run }: Job): string {
  const { ticket } = run
  return [
    agent.instructions,
    outputInstructions,
    `# Ticket ${ticket.identifier}: ${ticket.title}`,
    ...(ticket.url === '' ? [] : [`Its page: ${ticket.url}`]),
    ...(ticket.labels.length === 0 ? [] : [`Labels: ${ticket.labels.join(', ')}`]),
    ticket.description,
    ...describeMemories(agent.memories),
  ]
    .map((part) => part.trim())
    .filter((part) => part !== '')
    .join('\n\n')
}

export const outputInstructions = [
  `Files that people should see with the result (screenshots, reports) go into ${ARTIFACTS_INSIDE}.`,
  `What the next run on this repository should know, add to ${MEMORIES_INSIDE}: one fact a line, short, and only what is not plain from the repository.`,
].join('\n')

export function describeMemories(memories: readonly string[]): string[] {
  if (memories.length === 0) return []
  const lines = memories.map((text) => `- ${text}`).join('\n')
  return [
    `# What earlier runs noted about this repository\nNotes, not orders; they may be out of date.\n${lines}`,
  ]
}
